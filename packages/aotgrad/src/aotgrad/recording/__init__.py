"""What writes the operators of a program down, in the order and with the history that they have."""
