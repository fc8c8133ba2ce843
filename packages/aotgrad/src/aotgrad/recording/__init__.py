"""Recording: the operators of a program are written down, in the order and with the history that they have."""
