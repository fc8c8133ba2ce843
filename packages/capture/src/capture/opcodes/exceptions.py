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
    cause = _instance(ctx, frame.pop()) if inst.arg == 2 else None
    raised = _instance(ctx, frame.pop())
    if not isinstance(raised, ExceptionValue):
        ctx.throw(TypeError, "exceptions must derive from BaseException")
    if cause is not None:
        if cause is not NONE and not isinstance(cause, ExceptionValue):
            ctx.throw(TypeError, "exception causes must derive from BaseException")
        ctx.changed(raised)
        raised.overlay["__cause__"] = cause
    raised.raise_while(ctx.handled_here())
    raise UserRaised(raised)


def _instance(ctx: Tracer, raised: Value) -> Value:
    return ctx.call(raised, []) if isinstance(raised, ClassValue) else raised


def _reraise_current(ctx: Tracer, frame: Frame) -> None:
    handled = ctx.handled()
    if handled is None:
        ctx.throw(RuntimeError, "No active exception to reraise")
    raise UserRaised(handled)


@opcode("PUSH_EXC_INFO")
def push_exc_info(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    raised = frame.pop()
    frame.push(HandledValue(raised))
    frame.push(raised)
    frame.handling.append(raised)


class HandledValue(ExceptionValue):
    """The place on the stack of what PUSH_EXC_INFO saves, the exception that was being handled before.

    What matters is the one that is being handled now.  Cleaning up puts it away by a copy of the place: the place
    itself stays behind, and means nothing any more.
    """

    def __init__(self, handled: Value) -> None:
        super().__init__(BaseException)
        self.handled = handled
        self.put_away = False


@opcode("POP_EXCEPT")
def pop_except(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    place = frame.pop()
    assert isinstance(place, HandledValue)
    place.put_away = True
    frame.handling.pop()


@opcode("CHECK_EXC_MATCH")
def check_exc_match(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    wanted = frame.pop()
    raised = realize(ctx, frame.stack[-1])
    candidates = wanted.elements(ctx) if isinstance(wanted, TupleValue) else [wanted]
    classes = [realize(ctx, candidate) for candidate in candidates]
    if not all(isinstance(cls, ClassValue) and BaseException in cls.cls.__mro__ for cls in classes):
        ctx.stop("exception", "what is caught is no class of exceptions")
    # By ancestry alone: what ``issubclass`` may be taught does not count here.
    frame.push(boolean(any(cls.constant() in raised.python_type().__mro__ for cls in classes)))


@opcode("RERAISE")
def reraise(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    raised = frame.pop()
    raise UserRaised(raised)


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.literal(AssertionError))
