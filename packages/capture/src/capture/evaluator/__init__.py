"""The bytecode of a frame, run on symbolic values."""
