"""Compiled graphs on disk: their keys, the file that is written, and how another process takes one up."""
