"""What functions without Python code of their own mean: each module writes its rules into a table."""
