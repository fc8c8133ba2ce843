"""Generators and coroutines: where frames are suspended, and what they wait for."""

from __future__ import annotations

from typing import NoReturn

from capture.bytecode.instructions import Instruction
from capture.bytecode.versions import PY312
from capture.errors import UserRaised
from capture.evaluator.frame import Frame
from capture.evaluator.frame_queries import waits_for
from capture.evaluator.opcodes.registry import opcode
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize
from capture.values.constant import NONE
from capture.values.generator import (
    AsyncGeneratorValue,
    AsyncStep,
    CoroutineValue,
    SuspendableValue,
    YieldedToAsync,
    awaited,
)
from capture.values.iterating import iterate
from capture.values.iterator import IteratorValue
from capture.values.user_object import UserObject

# On 3.11 a finished SEND leaves only the result; later ones keep the receiver for END_SEND.
SEND_DROPS_RECEIVER = not PY312


@opcode("RETURN_GENERATOR")
def return_generator(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # The machine makes the generator when it opens the frame; here it only starts to run.
    frame.push(NONE)


@opcode("YIELD_VALUE")
def yield_value(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # Whoever steps this frame sees it, and stops stepping: the frame stays as it is until the next ``send``.
    frame.yielded = frame.pop()


@opcode("CALL_INTRINSIC_1")
def call_intrinsic(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    if inst.arg == "STOPITERATION_ERROR":
        return  # the exception is raised again, and whoever steps the generator turns it into another
    ctx.stop(Kind.OPCODE, f"the interpreter's intrinsic {inst.arg} is used")


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    value = frame.pop()
    if isinstance(value, CoroutineValue):
        # `yield from` takes a coroutine within `types.coroutine` and coroutines, and nowhere else.
        if not frame.code.co_flags & 0x180:  # CO_COROUTINE, CO_ITERABLE_COROUTINE
            ctx.throw(TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator")
        frame.push(value)
    else:
        frame.push(iterate(ctx, value))


@opcode("SEND")
def send(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    """``yield from`` and ``await``: push what comes out of the inner one, or go on with what it returned."""
    # What waits is not stepped by itself: each step of it steps what it waits for, which may wait in its turn.
    sent = frame.pop()
    receiver = realize(ctx, frame.stack[-1])
    # Its place in between cannot be made again where CPython goes on, unless it was made here.
    if not isinstance(receiver, (SuspendableValue, IteratorValue)):
        ctx.stop(Kind.GENERATOR, f"{receiver.describe()} is waited for")
    value = receiver.send(ctx, sent)
    if value is not None:
        frame.push(value)
        return
    if SEND_DROPS_RECEIVER:
        frame.pop_unseen()
    frame.push(receiver.returned)
    frame.jump(inst.arg)


@opcode("END_SEND")
def end_send(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    result = frame.pop_unseen()
    frame.pop_unseen()
    frame.push(result)


@opcode("CLEANUP_THROW")
def cleanup_throw(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    """An exception came out of what is waited for: its end is one too."""
    raised = frame.pop()
    frame.pop_unseen()
    frame.pop_unseen()
    # ``StopIteration`` carries what it returned; anything else goes on through this frame.
    if not issubclass(raised.python_type(), StopIteration):
        raise UserRaised(raised)
    frame.push(NONE)
    frame.push(raised.attribute(ctx, "value"))


# -- await -------------------------------------------------------------------------------------------------------


@opcode("GET_AWAITABLE")
def get_awaitable(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    value = frame.pop()
    found = awaited(ctx, value)
    if found is None:
        _refuse_awaiting(ctx, value, inst.arg)
    # Two awaiting one coroutine would step it in turns.
    if isinstance(found, CoroutineValue) and found.started and waits_for(found.frame) is not None:
        ctx.throw(RuntimeError, "coroutine is being awaited already")
    frame.push(found)


def _refuse_awaiting(ctx: Tracer, value: Value, after: int) -> NoReturn:
    if hasattr(value.python_type(), "__await__"):
        ctx.stop(Kind.COROUTINE, f"{value.describe()} is awaited, which was made outside")
    name = value.python_type().__name__
    if after:
        method = "__aenter__" if after == 1 else "__aexit__"
        ctx.throw(TypeError, f"'async with' received an object from {method} that does not implement __await__: {name}")
    ctx.throw(TypeError, f"object {name} can't be used in 'await' expression")


# -- async with, async for ---------------------------------------------------------------------------------------


@opcode("BEFORE_ASYNC_WITH")
def before_async_with(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    manager = frame.pop()
    # Both are looked up ahead of the call, as in CPython, so a missing exit is an error before anything is entered.
    enter, leave = (_special(ctx, manager, name) for name in ("__aenter__", "__aexit__"))
    if enter is None or leave is None:
        missed = "" if enter is None else " (missed __aexit__ method)"
        name = manager.python_type().__name__
        protocol = "object does not support the asynchronous context manager protocol"
        ctx.throw(TypeError, f"'{name}' {protocol}{missed}")
    frame.push(leave)
    frame.push(ctx.call(enter, []))


def _special(ctx: Tracer, value: Value, name: str) -> Value | None:
    if isinstance(value, UserObject):
        return value.special(ctx, name)
    return value.attribute(ctx, name) if hasattr(value.python_type(), name) else None


@opcode("GET_AITER")
def get_aiter(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    value = frame.pop()
    if isinstance(value, AsyncGeneratorValue):
        frame.push(value)
        return
    method, name = _special(ctx, value, "__aiter__"), value.python_type().__name__
    if method is None:
        ctx.throw(TypeError, f"'async for' requires an object with __aiter__ method, got {name}")
    made = realize(ctx, ctx.call(method, []))
    if not hasattr(made.python_type(), "__anext__"):
        name = made.python_type().__name__
        ctx.throw(TypeError, f"'async for' received an object from __aiter__ that does not implement __anext__: {name}")
    frame.push(made)


@opcode("GET_ANEXT")
def get_anext(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    iterator = realize(ctx, frame.stack[-1])
    if isinstance(iterator, AsyncGeneratorValue):
        # A step is an object of its own that is awaited; only then does the generator go on.
        frame.push(AsyncStep(iterator))
        return
    method = _special(ctx, iterator, "__anext__")
    if method is None:
        ctx.throw(TypeError, f"'async for' requires an iterator with __anext__ method, got {iterator.describe()}")
    made = realize(ctx, ctx.call(method, []))
    found = awaited(ctx, made)
    if found is None:
        ctx.stop(Kind.COROUTINE, f"{made.describe()} is awaited by `async for`")
    frame.push(found)


@opcode("END_ASYNC_FOR")
def end_async_for(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    raised = frame.pop()
    if not issubclass(raised.python_type(), StopAsyncIteration):
        raise UserRaised(raised)
    frame.pop_unseen()


@opcode("ASYNC_GEN_WRAP")
def async_gen_wrap(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # Marked, so that who steps it tells a value for `async for` from what an inner `await` waits for.
    frame.push(YieldedToAsync(frame.pop_unseen()))
