"""Questions about a frame's place: who handles an error here, what it still has to do when it is closed."""

from __future__ import annotations

import sys

from capture.bytecode.flow import acts_when_closed
from capture.bytecode.instructions import Handler
from capture.evaluator.frame import Frame
from capture.values.base import Value, settled
from capture.values.context import TorchContext
from capture.values.function import BuiltinValue
from capture.values.iterating import UserIterator
from capture.values.iterator import OutsideIterator


def may_handle_an_error(frame: Frame) -> bool:
    """True if an error here and now may be caught in the frame; torch's own context managers let errors pass."""
    handler = frame.current.handler
    while handler is not None:
        target = handler.target
        # An exception that left a handler is put away, or the variable of a comprehension within the frame.
        lets_pass = target.op in ("COPY", "SWAP")
        if not lets_pass and not _is_torchs_own_exit(frame, handler):
            return True
        handler = target.handler
    return False


def _is_torchs_own_exit(frame: Frame, handler: Handler) -> bool:
    """True for the handler of a ``with`` of one of torch's contexts."""
    if frame.instructions[handler.target.index + 1].op != "WITH_EXCEPT_START":
        return False
    leave = frame.stack[handler.depth - 1]
    return isinstance(leave, BuiltinValue) and isinstance(leave.receiver, TorchContext)


def has_something_to_do_at_the_end(frame: Frame) -> bool:
    """True if a suspended frame runs code of its own, or of what it waits for, when it is closed."""
    return acts_when_closed(frame.current.handler) or isinstance(waits_for(frame), (OutsideIterator, UserIterator))


def waits_for(frame: Frame) -> Value | None:
    """The value that a suspended frame waits for, inside ``yield from`` or ``await``; None elsewhere."""
    following = frame.instructions[frame.pc] if frame.current.op == "YIELD_VALUE" else None
    if following is None or following.op != "RESUME" or following.arg & 3 not in (2, 3):
        return None
    return settled(frame.stack[-1])


def stack_depth() -> int:
    """The number of Python's frames that are under way."""
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth
