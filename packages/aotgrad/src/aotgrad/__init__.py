"""Turns a torch graph or callable into forward and backward ATen graphs, ahead of time."""

__version__ = "0.1.0"
