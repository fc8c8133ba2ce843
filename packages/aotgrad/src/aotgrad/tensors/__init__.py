"""Tensors while a program is traced: functional, fake, with symbolic sizes, views, subclasses."""
