"""Symbolic values: what the evaluator knows of each object of the user's program, one module per kind."""
