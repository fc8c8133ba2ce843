"""Warm start: what one process learnt and the next one takes up, versions of frames on disk beside the kernels that
they call."""
