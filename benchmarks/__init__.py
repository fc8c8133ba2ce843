"""Ours, eager and torch.compile, measured in turn in one run."""
