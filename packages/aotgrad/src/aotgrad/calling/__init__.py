"""The caller's calling convention: arguments in, changes written back, views rebuilt."""
