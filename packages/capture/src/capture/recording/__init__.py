"""Torch operations on fake tensors: the FX graph, symbolic sizes, histories, what is written and may raise."""
