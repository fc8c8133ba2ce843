"""What tensors are while a program is traced: functional, fake, of symbolic sizes, views, subclasses."""
