"""Models written out in plain torch, so that the examples run without any download."""
