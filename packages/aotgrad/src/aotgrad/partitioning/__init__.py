"""Partitioning: the joint graph tidied, and cut into one of forward and one of backward."""
