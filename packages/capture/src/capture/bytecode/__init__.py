"""Code objects as lists of instructions, the same on every supported interpreter.  Needs no torch."""
