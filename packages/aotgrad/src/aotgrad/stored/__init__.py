"""What was compiled, as data that JSON holds, and back without tracing."""
