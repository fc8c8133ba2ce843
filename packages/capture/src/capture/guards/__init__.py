"""Sources of values, and guards on what a recorded graph relies on."""
