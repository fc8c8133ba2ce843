"""Operators that are met before autograd sees them: replaced, or refused."""
