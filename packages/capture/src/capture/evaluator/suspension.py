"""Resuming and closing suspended frames: generators, coroutines and asynchronous generators.

The machine steps their frames; here is what Python adds to that: who may be resumed, where an exception goes that is
thrown into a frame which waits for another one, and what must not be left open at the end.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from capture.bytecode.versions import PY312
from capture.errors import Break, UserRaised
from capture.evaluator.frame import Frame
from capture.evaluator.frame_queries import has_something_to_do_at_the_end, waits_for
from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.guards.sources import CallSource
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize
from capture.values.constant import NONE
from capture.values.exception import ExceptionValue
from capture.values.generator import (
    AsyncGeneratorValue,
    AsyncStep,
    CoroutineValue,
    CoroutineWrapper,
    GeneratorValue,
    SuspendableValue,
)
from capture.values.iterating import UserIterator
from capture.values.iterator import IteratorValue


def resume(ctx: World, suspended: SuspendableValue, sent: Value) -> Value | None:
    """Goes on with a value up to the next suspension; None at the end."""
    if suspended.running:
        ctx.throw(ValueError, f"{suspended.word} already executing")
    # Where it waits the value lies on its stack; before its start nothing takes one.
    return _go_on(ctx, suspended, lambda frame: frame.push(sent) if suspended.started else None)


def throw_into(ctx: World, suspended: SuspendableValue, raised: UserRaised, *, closes: bool = True) -> Value | None:
    """Goes on with an exception where it waits; what it waits for gets it first."""
    if suspended.running:
        ctx.throw(ValueError, f"{suspended.word} already executing")
    # What it delegates to by ``yield from`` or ``await``: nested as deep as it goes.
    inner = waits_for(suspended.frame)
    if inner is None:
        return _go_on(ctx, suspended, _raise(ctx, raised))
    suspended.running = True
    ctx.commit()
    try:
        found = _throw_onward(ctx, inner, raised, closes=closes)
    # The inner one let it out, or raised another: now it is raised where the outer one waits.
    except UserRaised as error:
        suspended.running = False
        return _go_on(ctx, suspended, _end_of_inner(ctx, error))
    finally:
        suspended.running = False
    # The inner one caught it and returned: its result is the value of ``yield from``.
    if found is None:
        made = ExceptionValue(StopIteration, [inner.returned])  # type: ignore[attr-defined]
        return _go_on(ctx, suspended, _end_of_inner(ctx, UserRaised(made)))
    return found


def _throw_onward(ctx: World, inner: Value, raised: UserRaised, *, closes: bool) -> Value | None:
    """Throws an exception into what a suspended frame waits for."""
    # ``GeneratorExit`` closes what is within and goes on outwards.
    if closes and issubclass(raised.value.python_type(), GeneratorExit):
        close(ctx, inner)
        raise raised
    if isinstance(inner, SuspendableValue):
        return throw_into(ctx, inner, raised, closes=closes)
    if isinstance(inner, IteratorValue):
        return inner.throw(ctx, raised)
    return ctx.stop(Kind.GENERATOR, f"an exception is thrown into {inner.describe()}")


def _raise(ctx: World, raised: UserRaised) -> Callable[[Frame], None]:
    def enter(frame: Frame) -> None:
        frame.push(NONE)  # in the place of the value that would have been sent
        ctx.unwind(frame, frame.current, raised)

    return enter


def _end_of_inner(ctx: World, error: UserRaised) -> Callable[[Frame], None]:
    """Goes on after what was waited for has ended.

    From 3.12 on code of the frame itself tells a result from an error; before, the interpreter did.
    """
    if PY312 or not issubclass(error.value.python_type(), StopIteration):
        return _raise(ctx, error)

    def enter(frame: Frame) -> None:
        waiting = frame.instructions[frame.pc + 1].arg  # RESUME, and then the jump back to SEND
        frame.stack[-1] = error.value.attribute(ctx, "value")
        frame.jump(waiting.arg)

    return enter


def _go_on(ctx: World, suspended: SuspendableValue, enter: Callable[[Frame], None]) -> Value | None:
    """Runs the frame up to its next suspension, entered by `enter`."""
    frame: Frame = suspended.frame
    ctx.commit()
    suspended.running = True
    # Tells a suspension from an end: both leave ``run``.
    frame.yielded = None
    try:
        enter(frame)
        # Behind ``enter``, which asks whether it had started.
        suspended.start()
        ctx.run(frame)
    except UserRaised as raised:
        suspended.finished = True
        _refuse_ends_as_errors(ctx, suspended, raised.value)
        raise
    finally:
        suspended.running = False
    if frame.returned is not None:
        suspended.returned = realize(ctx, frame.returned)
        suspended.end()
        return None
    found, frame.yielded = frame.yielded, None
    return found


def _refuse_ends_as_errors(ctx: World, suspended: SuspendableValue, error: Any) -> None:
    """Turns an exception that would look like the end of the iteration into another one, as PEP 479 has it."""
    ends = (StopIteration, StopAsyncIteration) if isinstance(suspended, AsyncGeneratorValue) else (StopIteration,)
    for end in ends:
        if issubclass(error.python_type(), end):
            made = ExceptionValue(RuntimeError, [ctx.literal(f"{suspended.word} raised {end.__name__}")])
            # As PEP 479 has it.
            made.overlay["__context__"] = error
            made.follow_from(ctx, error)
            raise UserRaised(made)


# -- closing -----------------------------------------------------------------------------------------------------


def close(ctx: World, value: Value) -> None:
    """Closes a generator or a coroutine as ``close()`` does, or what one waits for."""
    if isinstance(value, CoroutineWrapper):
        value = value.coroutine
    if isinstance(value, (AsyncStep, UserIterator)):
        value.close(ctx)
        return
    if not isinstance(value, SuspendableValue):
        return
    # Nothing of it has run, or all: closing runs nothing.
    if not value.started or value.finished:
        value.finished = True
        ctx.commit()
        return
    try:
        found = throw_into(ctx, value, UserRaised(ExceptionValue(GeneratorExit)))
    except UserRaised as raised:
        if issubclass(raised.value.python_type(), (GeneratorExit, StopIteration)):
            raised.was_caught()
            return
        raise
    if found is not None:  # it yielded in spite of the exception
        ctx.throw(RuntimeError, f"{value.word} ignored GeneratorExit")


def does_something_at_the_end(ctx: World, suspended: SuspendableValue, changes: Callable[[], object]) -> bool:
    """True if something happens when nobody refers to it any more: its own code runs, or Python warns."""
    if suspended.finished:
        return False
    if not suspended.started:
        return isinstance(suspended, CoroutineValue)  # which was never awaited
    if not has_something_to_do_at_the_end(suspended.frame):
        return False
    # Closed for a trial: whether that changes anything, or cannot be evaluated, is the answer.
    before = changes()
    try:
        close(ctx, suspended)
    except (Break, UserRaised):
        return True
    return changes() != before


def made_by_a_call(ctx: Tracer, code: CodeType) -> type[SuspendableValue] | None:
    """The kind of object that a call of such code gives instead of running it."""
    kind = next((kind for flag, kind in _KINDS.items() if code.co_flags & flag), None)
    # An event loop that has asked to be told of new ones would miss ours.
    if kind is AsyncGeneratorValue:
        ctx.guard(CallSource(asyncgen_hooks, "sys.get_asyncgen_hooks()"), GuardKind.EQUALS, (None, None))
        if asyncgen_hooks() != (None, None):
            ctx.stop(Kind.COROUTINE, f"the event loop is told of the async generator `{code.co_qualname}`")
    if kind is CoroutineValue:
        depth = sys.get_coroutine_origin_tracking_depth()
        ctx.guard(CallSource(sys.get_coroutine_origin_tracking_depth, "the depth of origins"), GuardKind.EQUALS, depth)
        if depth:
            ctx.stop(Kind.COROUTINE, f"the coroutine `{code.co_qualname}` is to know where it was made")
    return kind


_KINDS: dict[int, type[SuspendableValue]] = {
    inspect.CO_GENERATOR: GeneratorValue,
    inspect.CO_COROUTINE: CoroutineValue,
    inspect.CO_ASYNC_GENERATOR: AsyncGeneratorValue,
}


def asyncgen_hooks() -> tuple[object, object]:
    return tuple(sys.get_asyncgen_hooks())  # type: ignore[return-value]
