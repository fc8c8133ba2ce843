"""Tracing: inputs are made, the program runs once, its facts are read off, and autograd runs backward behind it."""
