"""Compiles unmodified PyTorch programs."""

__version__ = "0.1.0"
