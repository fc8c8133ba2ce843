"""Benchmarks: ours, eager and torch.compile, measured in turn in one run."""
