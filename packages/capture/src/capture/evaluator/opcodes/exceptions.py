"""Raising and catching exceptions of the user's program."""

from __future__ import annotations

from capture.bytecode.instructions import Instruction
from capture.errors import UserRaised
from capture.evaluator.frame import Frame
from capture.evaluator.opcodes.registry import opcode
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Tracer, Value, derives, realize
from capture.values.classes import ClassValue
from capture.values.constant import NONE, boolean, is_none
from capture.values.exception import ExceptionValue
from capture.values.exception_group import ExceptionGroupValue, has_same_history, leaves, make_group, split, wrapped
from capture.values.finalizers import require_quiet_end
from capture.values.sequence import ListValue, TupleValue


@opcode("RAISE_VARARGS")
def raise_varargs(ctx: World, frame: Frame, inst: Instruction) -> None:
    if inst.arg == 0:
        _reraise_current(ctx, frame)
    given = frame.pop() if inst.arg == 2 else None
    # A class is called for its instance, and that of the exception ahead of that of its cause.
    raised = _instance(ctx, frame.pop())
    if not isinstance(raised, ExceptionValue):
        ctx.throw(TypeError, "exceptions must derive from BaseException")
    if given is not None:
        cause = _instance(ctx, given)
        if not is_none(cause) and not isinstance(cause, ExceptionValue):
            ctx.throw(TypeError, "exception causes must derive from BaseException")
        raised.follow_from(ctx, cause)
    # ``__context__``: what was being handled here when this was raised.
    raised.raise_while(ctx, ctx.handled_here() if raised.source is None else ctx.handled())
    raise UserRaised(raised)


def _instance(ctx: Tracer, raised: Value) -> Value:
    """The exception itself; a class that is none of exceptions is not called for one."""
    called = isinstance(raised, ClassValue) and derives(raised.cls, BaseException)
    return ctx.call(raised, []) if called else raised


def _reraise_current(ctx: World, frame: Frame) -> None:
    """``raise`` alone: raises the exception that is being handled, in this function or in a caller."""
    handled = ctx.handled()
    if handled is None:
        ctx.throw(RuntimeError, "No active exception to reraise")
    raise UserRaised(handled)


@opcode("PUSH_EXC_INFO")
def push_exc_info(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    raised = frame.pop()
    frame.push(HandledValue(raised))
    frame.push(raised)
    # Beside the stack: `sys.exception()` and `raise` alone ask which one it is, from functions that are called within
    # as well.
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
    # With the clause the exception may end, and with it all that it refers to: frames, their variables, finalizers.
    require_quiet_end(ctx, place.handled)
    place.put_away = True
    frame.handling.pop()


@opcode("CHECK_EXC_MATCH")
def check_exc_match(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    wanted = frame.pop()
    raised = realize(ctx, frame.stack[-1])
    candidates = wanted.elements(ctx) if isinstance(wanted, TupleValue) else [wanted]
    classes = [realize(ctx, candidate) for candidate in candidates]
    if not all(isinstance(cls, ClassValue) and BaseException in cls.cls.__mro__ for cls in classes):
        ctx.stop(Kind.EXCEPTION, "what is caught is no class of exceptions")
    # By ancestry alone: what ``issubclass`` may be taught does not count here.
    frame.push(boolean(any(cls.constant() in raised.python_type().__mro__ for cls in classes)))


@opcode("CHECK_EG_MATCH")
def check_eg_match(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    """One clause of ``except*``: what is left for the clauses that follow, and what this one handles."""
    wanted, raised = frame.pop(), frame.pop()
    classes = _caught_classes(ctx, wanted)
    # Which part of nested groups such a clause would take is not clear, so that CPython forbids it.
    if any(issubclass(cls, BaseExceptionGroup) for cls in classes):
        ctx.throw(TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.")
    match, rest = _split_for_handler(ctx, raised, classes) if isinstance(raised, ExceptionValue) else (None, None)
    frame.push(NONE if rest is None else rest)
    frame.push(NONE if match is None else match)
    if match is not None:
        _handle_instead(frame, match)


def _caught_classes(ctx: Tracer, wanted: Value) -> list[type[BaseException]]:
    candidates = wanted.elements(ctx) if isinstance(wanted, TupleValue) else [wanted]
    classes = [realize(ctx, candidate) for candidate in candidates]
    if not all(isinstance(cls, ClassValue) and BaseException in cls.cls.__mro__ for cls in classes):
        ctx.throw(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    return [cls.constant() for cls in classes]


def _split_for_handler(
    ctx: Tracer, raised: ExceptionValue, classes: list[type[BaseException]]
) -> tuple[ExceptionValue | None, ExceptionValue | None]:
    """The part of an exception that a clause of ``except*`` handles, and what is left for the others."""

    def is_caught(error: ExceptionValue) -> bool:
        return any(cls in error.cls.__mro__ for cls in classes)

    if is_caught(raised):
        # A clause always handles a group, of one if need be.
        return (raised if isinstance(raised, ExceptionGroupValue) else wrapped(ctx, raised)), None
    if isinstance(raised, ExceptionGroupValue):
        # By its method, which a class of the program's may have overridden.
        pair = ctx.call(raised.attribute(ctx, "split"), [TupleValue([ctx.literal(cls) for cls in classes])])
        match, rest = (realize(ctx, part) for part in pair.elements(ctx))
        return _exception_or_none(match), _exception_or_none(rest)
    return None, raised


def _exception_or_none(value: Value) -> ExceptionValue | None:
    return value if isinstance(value, ExceptionValue) else None


def _handle_instead(frame: Frame, match: ExceptionValue) -> None:
    """Makes what matched the exception that is being handled, while the clause runs."""
    frame.handling[-1] = match
    place = next(value for value in reversed(frame.stack) if isinstance(value, HandledValue) and not value.put_away)
    place.handled = match


@opcode("PREP_RERAISE_STAR")
def prep_reraise_star(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    """Pushes, after the last clause, what none of them handled together with what they raised."""
    found, raised = frame.pop().elements(ctx), frame.pop()
    errors = [error for error in (realize(ctx, each) for each in found) if isinstance(error, ExceptionValue)]
    assert isinstance(raised, ExceptionValue)
    if not errors or not isinstance(raised, ExceptionGroupValue):
        frame.push(errors[0] if errors else NONE)
        return
    # A part of the group that a clause raised again, by a plain `raise`: these become one group again, shaped as the
    # one that came. What is new stands beside it.
    again = [error for error in errors if has_same_history(ctx, error, raised)]
    new: list[Value] = [error for error in errors if error not in again]
    wanted = {id(leaf.identity()) for error in again for leaf in leaves(ctx, error)}
    left, _ = split(ctx, raised, lambda error: id(error.identity()) in wanted, rest=False)
    if left is not None:
        new.append(left)
    frame.push(new[0] if len(new) == 1 else make_group(ctx, BaseExceptionGroup, ctx.literal(""), ListValue(new)))


@opcode("RERAISE")
def reraise(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    raised = frame.pop()
    raise UserRaised(raised)


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.literal(AssertionError))
