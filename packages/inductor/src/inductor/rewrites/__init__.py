"""Rewrites: what an FX graph says twice or for nothing, found without changing the graph."""
