"""Versions of frames as data: written once, taken up by another process without evaluation."""
