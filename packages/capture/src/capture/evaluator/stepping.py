"""Regions around what is suspended: each step of a coroutine or generator runs captured, and nothing in between.

CPython steps the frame itself, which outlives any call; the functions that it calls are captured as frames of their
own.  A step belongs to the thread and the task that make it, so tasks of several regions may take turns in one loop.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import CodeType, FunctionType
from typing import Any

from capture import _engine


class _Steps:
    """A wrapper of something suspended where that is awaited or delegated to: each step runs in a region."""

    __slots__ = ("close", "send", "throw")

    def __init__(self, config: object, suspended: Any) -> None:
        self.send, self.throw, self.close = (
            _engine.Region(method, config) for method in (suspended.send, suspended.throw, suspended.close)
        )

    def __await__(self) -> _Steps:
        return self

    def __iter__(self) -> _Steps:
        return self

    def __next__(self) -> object:
        return self.send(None)


def in_steps(config: object, fn: Any, note: Callable[[], None], *, like: Any = None) -> FunctionType | None:
    """A function of the same kind whose frames run in a region; None for functions that do not suspend.

    ``note`` is told of each call; ``like`` says of what kind it is, where ``fn`` only passes on what another makes.
    """
    kind = next((wrap for is_kind, wrap in _KINDS if is_kind(like or fn)), None)
    if kind is None:
        return None
    made: FunctionType = kind(config, fn, note)
    functools.update_wrapper(made, like or fn)
    return made


def as_it_was(function: object) -> object | None:
    """The function that was given to ``in_steps``; None for a function that did not come from it."""
    if isinstance(function, FunctionType) and function.__code__ in STEPPED:
        return function.__wrapped__  # type: ignore[attr-defined]
    return None


def _coroutine(
    config: object, fn: Callable[..., Coroutine[object, object, object]], note: Callable[[], None]
) -> object:

    async def run(*args: Any, **kwargs: Any) -> object:
        note()
        return await _Steps(config, fn(*args, **kwargs))

    return run


def _generator(
    config: object, fn: Callable[..., Generator[object, object, object]], note: Callable[[], None]
) -> object:

    def run(*args: Any, **kwargs: Any) -> object:
        note()
        return (yield from _Steps(config, fn(*args, **kwargs)))

    return run


def _async_generator(
    config: object, fn: Callable[..., AsyncGenerator[object, object]], note: Callable[[], None]
) -> object:
    """The wrapper of an asynchronous generator function, which passes on what is sent and thrown, step by step."""

    async def run(*args: Any, **kwargs: Any) -> object:
        note()
        generator = fn(*args, **kwargs)
        step: Any = generator.__anext__()
        while True:
            try:
                item = await _Steps(config, step)
            except StopAsyncIteration:
                return
            try:
                sent = yield item
            except GeneratorExit:
                await _Steps(config, generator.aclose())
                raise
            except BaseException as error:  # noqa: BLE001 - whatever is thrown is the generator's to handle
                step = generator.athrow(error)
            else:
                step = generator.asend(sent)

    return run


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[..., Any]], ...] = (
    (inspect.iscoroutinefunction, _coroutine),
    (inspect.isgeneratorfunction, _generator),
    (inspect.isasyncgenfunction, _async_generator),
)


def _code_of_run(kind: Callable[..., object]) -> CodeType:
    return next(const for const in kind.__code__.co_consts if isinstance(const, CodeType) and const.co_name == "run")


STEPPED = frozenset(_code_of_run(kind) for _, kind in _KINDS)
