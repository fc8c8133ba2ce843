"""Methods of generators, coroutines and asynchronous generators, and of what steps the latter."""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from capture.bytecode.versions import PY312, PY313
from capture.errors import UserRaised
from capture.evaluator import suspension
from capture.evaluator.builtin_rules.registry import rule
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize
from capture.values.classes import ClassValue
from capture.values.constant import NONE, is_none
from capture.values.exception import ExceptionValue
from capture.values.generator import (
    STEP_TYPES,
    AsyncGeneratorValue,
    AsyncStep,
    AsyncThrow,
    CoroutineValue,
    CoroutineWrapper,
    SuspendableValue,
)
from capture.values.iterator import taken_result
from capture.values.user_object import UserObject


def _result(ctx: Tracer, found: Value | None, ended: object) -> Value:
    """A value that came out, or the end with its result, which is told once."""
    if found is not None:
        return found
    return ctx.throw(StopIteration, *taken_result(ended))


@rule(GeneratorType.send, CoroutineType.send, kinds=(SuspendableValue, None))
def send(ctx: Tracer, suspended: SuspendableValue, value: Value) -> Value:
    """``send``: one that has not started takes nothing but None."""
    if not suspended.started and not suspended.finished and not is_none(value):
        ctx.throw(TypeError, f"can't send non-None value to a just-started {suspended.word}")
    return _result(ctx, suspended.send(ctx, value), suspended)


@rule(GeneratorType.throw, CoroutineType.throw, kinds=(SuspendableValue, (ExceptionValue, ClassValue)))
def throw(
    ctx: Tracer, suspended: SuspendableValue, raised: Value, value: Value = NONE, traceback: Value = NONE
) -> Value:
    """``throw``: one that has not started, or has ended, raises it at once."""
    error = _to_throw(ctx, raised, value)
    if suspended.finished and isinstance(suspended, CoroutineValue):
        ctx.throw(RuntimeError, "cannot reuse already awaited coroutine")
    # Nothing of it waits that could handle the exception.
    if not suspended.started or suspended.finished:
        suspended.finished = True
        raise UserRaised(error)
    return _result(ctx, suspended.throw(ctx, UserRaised(error)), suspended)


def _to_throw(ctx: Tracer, raised: Value, value: Value) -> ExceptionValue:
    """The exception to throw, made where a class was given."""
    # CPython gives the warning, at the program's line.
    if PY312 and not is_none(value):
        ctx.stop(Kind.GENERATOR, "an exception is thrown by its class and arguments, of which Python warns")
    error = value if isinstance(value, ExceptionValue) else raised
    if isinstance(error, ClassValue):
        error = realize(ctx, ctx.call(error, [] if is_none(value) else [value]))
    if not isinstance(error, ExceptionValue):
        ctx.throw(TypeError, "exceptions must be classes or instances deriving from BaseException")
    return error


@rule(GeneratorType.close, CoroutineType.close, kinds=(SuspendableValue,))
def close(ctx: Any, suspended: SuspendableValue) -> Value:
    """``close``, which gives the result from 3.13 on."""
    was_running = suspended.started and not suspended.finished
    suspension.close(ctx, suspended)
    return suspended.returned if PY313 and was_running else NONE


@rule(CoroutineType.__await__, kinds=(CoroutineValue,))
def wrap_coroutine(ctx: Tracer, coroutine: CoroutineValue) -> Value:
    return CoroutineWrapper(coroutine)


# -- asynchronous generators -------------------------------------------------------------------------------------


@rule(AsyncGeneratorType.__aiter__, kinds=(AsyncGeneratorValue,))
def itself(ctx: Tracer, value: Value) -> Value:
    return value


@rule(AsyncGeneratorType.__anext__, AsyncGeneratorType.asend, kinds=(AsyncGeneratorValue,))
def step(ctx: Tracer, generator: AsyncGeneratorValue, value: Value = NONE) -> Value:
    return AsyncStep(generator, value)


@rule(AsyncGeneratorType.athrow, kinds=(AsyncGeneratorValue, (ExceptionValue, ClassValue)))
def throw_async(ctx: Tracer, generator: AsyncGeneratorValue, raised: Value, value: Value = NONE) -> Value:
    return AsyncThrow(generator, _to_throw(ctx, raised, value))


@rule(AsyncGeneratorType.aclose, kinds=(AsyncGeneratorValue,))
def close_async(ctx: Tracer, generator: AsyncGeneratorValue) -> Value:
    return AsyncThrow(generator)


@rule(aiter, kinds=((UserObject, AsyncGeneratorValue),))
def get_aiter(ctx: Tracer, value: Value) -> Value:
    return ctx.call(value.attribute(ctx, "__aiter__"), [])


@rule(anext, kinds=((UserObject, AsyncGeneratorValue),))
def get_anext(ctx: Tracer, iterator: Value, *default: Value) -> Value:
    # CPython makes an awaitable of its own for it.
    if default:
        ctx.stop(Kind.COROUTINE, "`anext` is called with a default")
    return ctx.call(iterator.attribute(ctx, "__anext__"), [])


def _step_methods(cls: Any) -> None:
    """The rules for what ``asend`` and its kin give, whose types have no names in Python."""

    @rule(cls.send, kinds=(AsyncStep, None))
    def send_to_step(ctx: Tracer, waiting: AsyncStep, value: Value) -> Value:
        return _result(ctx, waiting.send(ctx, value), waiting)

    @rule(cls.__next__, kinds=(AsyncStep,))
    def next_of_step(ctx: Tracer, waiting: AsyncStep) -> Value:
        return _result(ctx, waiting.send(ctx, NONE), waiting)

    @rule(cls.throw, kinds=(AsyncStep, (ExceptionValue, ClassValue)))
    def throw_into_step(ctx: Tracer, waiting: AsyncStep, raised: Value, value: Value = NONE) -> Value:
        return _result(ctx, waiting.throw(ctx, UserRaised(_to_throw(ctx, raised, value))), waiting)

    @rule(cls.close, kinds=(AsyncStep,))
    def close_step(ctx: Tracer, waiting: AsyncStep) -> Value:
        waiting.close(ctx)
        return NONE

    # A step is its own iterator.
    rule(cls.__await__, cls.__iter__, kinds=(AsyncStep,))(itself)


for _cls in STEP_TYPES:
    _step_methods(_cls)
