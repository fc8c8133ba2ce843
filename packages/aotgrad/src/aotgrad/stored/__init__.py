"""Compiled calls as data that JSON holds, and back without tracing."""
