"""Triton kernels of the user's as operators of a graph: what they write, and how they are called."""
