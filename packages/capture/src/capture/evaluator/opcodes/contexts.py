"""``with`` statements."""

from __future__ import annotations

from capture.bytecode.instructions import Instruction
from capture.evaluator.frame import Frame
from capture.evaluator.opcodes.registry import opcode
from capture.values.base import Tracer, Value, held_by, realize, type_name
from capture.values.user_object import UserObject


@opcode("BEFORE_WITH")
def before_with(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    manager = frame.pop()
    # Both are looked up ahead of the call, so that a missing ``__exit__`` is an error before anything is entered.
    enter, leave = _method(ctx, manager, "__enter__"), _method(ctx, manager, "__exit__")
    frame.push(leave)
    frame.push(ctx.call(enter, []))


def _method(ctx: Tracer, manager: Value, name: str) -> Value:
    """A method of a context manager, looked up on its type as Python does."""
    cls = manager.python_type()
    if held_by(cls, name) is None:
        missed = " (missed __exit__ method)" if name == "__exit__" else ""
        ctx.throw(TypeError, f"'{type_name(cls)}' object does not support the context manager protocol{missed}")
    method = manager.special(ctx, name) if isinstance(manager, UserObject) else manager.attribute(ctx, name)
    assert method is not None
    return method


@opcode("WITH_EXCEPT_START")
def with_except_start(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # From the top: the exception, the one that was handled before, an offset, and the ``__exit__`` that was pushed
    # first.
    raised = realize(ctx, frame.stack[-1])
    leave = realize(ctx, frame.stack[-4])
    traceback = raised.attribute(ctx, "__traceback__")
    frame.push(ctx.call(leave, [ctx.literal(raised.python_type()), raised, traceback]))
