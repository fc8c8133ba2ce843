"""Raising and catching exceptions of the user's program."""

from __future__ import annotations

from capture.errors import UserRaised
from capture.frame import Frame
from capture.instructions import Instruction
from capture.opcodes.registry import opcode
from capture.values.base import Tracer, Value, realize
from capture.values.constant import NONE, boolean
from capture.values.exception import ExceptionValue
from capture.values.function import ClassValue
from capture.values.sequence import TupleValue


@opcode("RAISE_VARARGS")
def raise_varargs(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    if inst.arg == 0:
        _reraise_current(ctx, frame)
    if inst.arg == 2:
        frame.pop()  # the cause is seen only in a traceback, which CPython makes when the exception leaves the frame
    raised = frame.pop()
    if isinstance(raised, ClassValue):
        raised = ctx.call(raised, [])
    if not isinstance(raised, ExceptionValue):
        ctx.throw(TypeError, "exceptions must derive from BaseException")
    raise UserRaised(raised)


def _reraise_current(ctx: Tracer, frame: Frame) -> None:
    if not frame.handling:
        ctx.throw(RuntimeError, "No active exception to reraise")
    raise UserRaised(frame.handling[-1])


@opcode("PUSH_EXC_INFO")
def push_exc_info(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    raised = frame.pop()
    frame.push(HandledValue(frame.handling[-1] if frame.handling else NONE))
    frame.push(raised)
    frame.handling.append(raised)


class HandledValue(ExceptionValue):
    """What PUSH_EXC_INFO saves: the exception that was being handled before."""

    def __init__(self, previous: Value) -> None:
        super().__init__(BaseException)
        self.previous = previous


@opcode("POP_EXCEPT")
def pop_except(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.pop()
    frame.handling.pop()


@opcode("CHECK_EXC_MATCH")
def check_exc_match(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    wanted = frame.pop()
    raised = realize(ctx, frame.stack[-1])
    candidates = wanted.elements(ctx) if isinstance(wanted, TupleValue) else [wanted]
    classes = tuple(realize(ctx, candidate).constant() for candidate in candidates)
    frame.push(boolean(issubclass(raised.python_type(), classes)))


@opcode("RERAISE")
def reraise(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    raised = frame.pop()
    raise UserRaised(raised)


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.literal(AssertionError))
