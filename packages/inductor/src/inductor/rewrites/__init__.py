"""Rewrites: parts of an FX graph that are redundant or have a better form, found without changing the graph."""
