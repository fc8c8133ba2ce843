"""Where values come from, and what a recorded graph relies on."""
