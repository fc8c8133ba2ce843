"""Handlers of opcodes: one module per family, each handler a few lines."""

from capture.evaluator.opcodes import (  # noqa: F401 - for what they write into the table
    arithmetic,
    calls,
    class_bodies,
    containers,
    contexts,
    exceptions,
    jumps,
    names,
    stack,
    suspending,
)
from capture.evaluator.opcodes.registry import HANDLERS

__all__ = ["HANDLERS"]
