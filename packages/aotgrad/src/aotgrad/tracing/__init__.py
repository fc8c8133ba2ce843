"""From arguments to the joint graph: inputs made, one run of the program, facts of it, backward behind it."""
