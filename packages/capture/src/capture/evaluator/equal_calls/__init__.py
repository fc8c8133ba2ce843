"""Calls that are equal to one that was evaluated already: what that one did is done again, without its bytecode."""
