"""Stacks: equal layers of a graph, one after another, which are traced and compiled once."""
