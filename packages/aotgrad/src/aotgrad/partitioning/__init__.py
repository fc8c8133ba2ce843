"""The joint graph tidied, and made into one of forward and one of backward."""
