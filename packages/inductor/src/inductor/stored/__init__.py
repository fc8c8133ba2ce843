"""Compiled graphs on disk: by what they are found, what is written, and how another process takes one up."""
