"""Captures the torch operations of any Python function as guarded FX graphs, through CPython's frame-evaluation hook."""

__version__ = "0.1.0"
