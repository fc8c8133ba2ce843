"""``with`` statements."""

from __future__ import annotations

from capture.bytecode.instructions import Instruction
from capture.evaluator.frame import Frame
from capture.evaluator.opcodes.registry import opcode
from capture.values.base import Tracer, Value, realize
from capture.values.user_object import UserObject


@opcode("BEFORE_WITH")
def before_with(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    manager = frame.pop()
    leave = _method(ctx, manager, "__exit__")
    entered = ctx.call(_method(ctx, manager, "__enter__"), [])
    frame.push(leave)
    frame.push(entered)


def _method(ctx: Tracer, manager: Value, name: str) -> Value:
    if not isinstance(manager, UserObject):
        return manager.attribute(ctx, name)
    method = manager.special(ctx, name)
    if method is None:
        ctx.throw(TypeError, f"'{manager.cls.__name__}' object does not support the context manager protocol")
    return method


@opcode("WITH_EXCEPT_START")
def with_except_start(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    raised = realize(ctx, frame.stack[-1])
    leave = realize(ctx, frame.stack[-4])
    traceback = raised.attribute(ctx, "__traceback__")
    frame.push(ctx.call(leave, [ctx.literal(raised.python_type()), raised, traceback]))
