"""Rules for functions without Python code of their own: each module writes its own into a table."""
