"""Frames that are run from one suspension to the next: generators, coroutines, asynchronous generators.

What is awaited or delegated to has ``send`` and ``throw``, which give the next value that comes out, or None at the
end, with the result in ``returned``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from capture.errors import UserRaised
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize, type_name
from capture.values.constant import NONE, is_none
from capture.values.exception import ExceptionValue
from capture.values.function import BuiltinValue, FunctionValue
from capture.values.iterating import UserIterator
from capture.values.iterator import IteratorValue
from capture.values.user_object import UserObject


class SuspendableValue(Value):
    """A frame that was called and has not ended: it is run from one suspension to the next, by whoever asks."""

    kind: type
    word: str

    def __init__(self, frame: Any, call: tuple[FunctionValue, Sequence[Value], dict[str, Value]]) -> None:
        # Kept between suspensions with its stack, variables and place; the machine steps it when somebody resumes it.
        self.frame = frame
        self.function, self.args, self.kwargs = call
        self.started = False
        self.running = False
        self.finished = False
        self.returned: Value = NONE

    def python_type(self) -> type:
        return self.kind

    def attribute(self, ctx: Tracer, name: str) -> Value:
        method = getattr(self.kind, name, None)
        # ``send``, ``throw``, ``close`` and their kin: rules say what they do.
        if not name.startswith("__") and callable(method):
            return BuiltinValue(method, receiver=self)
        if name in ("__name__", "__qualname__"):
            return self.function.attribute(ctx, name)
        return super().attribute(ctx, name)

    def send(self, ctx: Tracer, sent: Value) -> Value | None:
        return None if self.finished else ctx.resume(self, sent)

    def throw(self, ctx: Tracer, raised: UserRaised) -> Value | None:
        return ctx.throw_into(self, raised)

    def parts(self) -> Iterator[Value]:
        """The values that its call was given, and from its start on those that its frame refers to."""
        # The arguments wait in the call until the frame has them; one that ended refers to nothing.
        if not self.started:
            yield self.function
            yield from self.args
            yield from self.kwargs.values()
        elif not self.finished:
            yield from self.frame.stack
            yield from self.frame.slots.values()

    def start(self) -> None:
        """Marks it as started: its frame refers to the arguments from here on."""
        self.started = True
        self.args, self.kwargs = (), {}

    def end(self) -> None:
        """Marks it as finished: nobody will resume it."""
        self.finished = True
        self.args, self.kwargs = (), {}
        # What its variables held may have been held by nobody else: it is let go now, as in Python.
        self.frame.forget()

    def describe(self) -> str:
        return f"the {self.word} `{self.function.qualname}`"


class GeneratorValue(SuspendableValue, IteratorValue):
    """A generator: an iterator, whose next value is what comes out when nothing is sent in."""

    kind, word = GeneratorType, "generator"

    def advance(self, ctx: Tracer) -> Value | None:
        return self.send(ctx, NONE)


class CoroutineValue(SuspendableValue):
    """A coroutine: run by ``await`` alone, and once."""

    kind, word = CoroutineType, "coroutine"

    def send(self, ctx: Tracer, sent: Value) -> Value | None:
        if self.finished:
            ctx.throw(RuntimeError, "cannot reuse already awaited coroutine")
        return ctx.resume(self, sent)

    def elements(self, ctx: Tracer) -> list[Value]:
        ctx.throw(TypeError, "'coroutine' object is not iterable")


class CoroutineWrapper(IteratorValue):
    """The iterator that ``__await__`` of a coroutine gives."""

    def __init__(self, coroutine: CoroutineValue) -> None:
        self.coroutine = coroutine

    def python_type(self) -> type:
        return _WRAPPER

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name in ("send", "throw", "close"):
            return self.coroutine.attribute(ctx, name)
        return super().attribute(ctx, name)

    def advance(self, ctx: Tracer) -> Value | None:
        return self.send(ctx, NONE)

    def send(self, ctx: Tracer, sent: Value) -> Value | None:
        found = self.coroutine.send(ctx, sent)
        # Handed on: ``yield from`` reads the result of what it iterates.
        self.returned = self.coroutine.returned
        return found

    def throw(self, ctx: Tracer, raised: UserRaised) -> Value | None:
        found = self.coroutine.throw(ctx, raised)
        self.returned = self.coroutine.returned
        return found

    def parts(self) -> Iterator[Value]:
        yield self.coroutine


class YieldedToAsync(Value):
    """A value that an asynchronous generator yields, as distinct from what something that it awaits lets through."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def python_type(self) -> type:
        return object

    def parts(self) -> Iterator[Value]:
        yield self.value


class AsyncGeneratorValue(SuspendableValue):
    """An asynchronous generator, which steps run: ``closed`` and ``stepping`` say what the next step is refused for."""

    kind, word = AsyncGeneratorType, "async generator"

    def __init__(self, frame: Any, call: tuple[FunctionValue, Sequence[Value], dict[str, Value]]) -> None:
        super().__init__(frame, call)
        self.closed = False
        self.stepping = False

    def elements(self, ctx: Tracer) -> list[Value]:
        ctx.throw(TypeError, "'async_generator' object is not iterable")


class AsyncStep(IteratorValue):
    """The awaitable that ``asend`` and ``__anext__`` give: awaiting it runs the generator to its next ``yield``."""

    name = "__anext__()/asend()"

    def __init__(self, generator: AsyncGeneratorValue, first: Value = NONE) -> None:
        self.generator = generator
        self.first = first
        self.started = False
        self.finished = False

    def python_type(self) -> type:
        return _STEPS[type(self)]

    def attribute(self, ctx: Tracer, name: str) -> Value:
        method = getattr(self.python_type(), name, None)
        if name in ("send", "throw", "close", "__await__", "__iter__", "__next__"):
            return BuiltinValue(method, receiver=self)
        return super().attribute(ctx, name)

    def advance(self, ctx: Tracer) -> Value | None:
        return self.send(ctx, NONE)

    def send(self, ctx: Tracer, sent: Value) -> Value | None:
        self._refuse_reuse(ctx)
        if not self.started:
            # Only where a step begins: one that goes on has set the flag itself.
            if self.generator.stepping:
                ctx.throw(RuntimeError, "anext(): asynchronous generator is already running")
            # ``asend(x)`` was given x; the first ``send(None)`` of whoever awaits carries nothing.
            sent = self.first if is_none(sent) else sent
            self.started = True
        # Two steps of one generator at a time are refused.
        self.generator.stepping = True
        return self._outcome(ctx, lambda: self.generator.send(ctx, sent))

    def throw(self, ctx: Tracer, raised: UserRaised) -> Value | None:
        self._refuse_reuse(ctx)
        self.started = True
        return self._outcome(ctx, lambda: self.generator.throw(ctx, raised))

    def close(self, ctx: Tracer) -> None:
        if self.started and not self.finished:
            ctx.stop(Kind.GENERATOR, "a step of an async generator is closed under way")
        self.finished = True

    def _refuse_reuse(self, ctx: Tracer) -> None:
        if self.finished:
            ctx.throw(RuntimeError, f"cannot reuse already awaited {self.name}")

    def _outcome(self, ctx: Tracer, run: Any) -> Value | None:
        """The next value for the one who awaits; None when the step is over, its value in ``returned``."""
        generator = self.generator
        try:
            found: Value | None = run()
            # The generator returned: that ends an ``async for``.
            if found is None:
                ctx.throw(StopAsyncIteration)
        except UserRaised as raised:
            self.finished, generator.stepping = True, False
            if issubclass(raised.value.python_type(), (StopAsyncIteration, GeneratorExit)):
                generator.closed = True
            raise
        # Something within awaits: what it lets through goes to the event loop, and the step is not over.
        if not isinstance(found, YieldedToAsync):
            return found
        self.finished, generator.stepping = True, False
        self.returned = realize(ctx, found.value)
        return None

    def parts(self) -> Iterator[Value]:
        yield self.generator
        yield self.first


class AsyncThrow(AsyncStep):
    """The awaitable that ``athrow`` gives, and, without an exception, ``aclose``."""

    def __init__(self, generator: AsyncGeneratorValue, error: ExceptionValue | None = None) -> None:
        super().__init__(generator)
        self.error = error
        self.name = "aclose()/athrow()"

    def send(self, ctx: Tracer, sent: Value) -> Value | None:
        generator = self.generator
        self._refuse_reuse(ctx)
        # As in CPython, which closes what has ended without a word.
        if generator.finished:
            self.finished = True
            return None
        # Resumed after something within awaited: an ordinary step from here on.
        if self.started:
            return self._outcome(ctx, lambda: generator.send(ctx, sent))
        if generator.stepping:
            self.finished = True
            called = "athrow" if self.error is not None else "aclose"
            ctx.throw(RuntimeError, f"{called}(): asynchronous generator is already running")
        if generator.closed:
            self.finished = True
            ctx.throw(StopAsyncIteration)
        if not is_none(sent):
            ctx.throw(RuntimeError, "can't send non-None value to a just-started coroutine")
        self.started = generator.stepping = True
        return self._outcome(ctx, lambda: self._begin(ctx))

    def _begin(self, ctx: Tracer) -> Value | None:
        # What is thrown is not the step's end: only what comes out of the generator is.
        error = self.error
        if error is None:
            self.generator.closed = True
            error = ExceptionValue(GeneratorExit)
        return ctx.throw_into(self.generator, UserRaised(error), closes=False)

    def _outcome(self, ctx: Tracer, run: Any) -> Value | None:
        if self.error is not None:
            return super()._outcome(ctx, run)
        try:
            found: Value | None = run()
        except UserRaised as raised:
            self.finished, self.generator.stepping = True, False
            # It ended as `aclose` asked it to; any other error is for who awaits that.
            if issubclass(raised.value.python_type(), (StopAsyncIteration, GeneratorExit)):
                raised.was_caught()
                return None
            raise
        # It awaits while it closes.
        if found is not None and not isinstance(found, YieldedToAsync):
            return found
        self.finished, self.generator.stepping = True, False
        if found is not None:
            ctx.throw(RuntimeError, "async generator ignored GeneratorExit")
        return None

    def parts(self) -> Iterator[Value]:
        yield self.generator
        if self.error is not None:
            yield self.error


def _types_made_in_c() -> tuple[type, dict[type, type]]:
    """Types that have no name in Python: one of each is made, asked for its type, and closed."""

    async def nothing() -> Any:
        return None

    async def numbers() -> Any:
        yield 0

    coroutine, generator = nothing(), numbers()
    step, end = generator.asend(None), generator.aclose()
    found: tuple[type, dict[type, type]] = type(coroutine.__await__()), {AsyncStep: type(step), AsyncThrow: type(end)}
    for unused in (coroutine, step, end):  # or Python would say that nobody awaited them
        unused.close()
    return found


_WRAPPER, _STEPS = _types_made_in_c()
STEP_TYPES = tuple(_STEPS.values())


def is_awaitable(value: Value) -> bool:
    """True if ``await`` runs it as it is."""
    if isinstance(value, GeneratorValue):
        return bool(value.frame.code.co_flags & inspect.CO_ITERABLE_COROUTINE)
    return isinstance(value, CoroutineValue)


def awaited(ctx: Tracer, value: Value) -> Value | None:
    """The value that runs when this is awaited; None where it is nothing to await."""
    if is_awaitable(value) or isinstance(value, AsyncStep):
        return value
    if not isinstance(value, UserObject):
        return None
    method = value.special(ctx, "__await__")
    if method is None:
        return None
    # ``__await__`` gives an iterator, whose items go to the event loop.
    made = realize(ctx, ctx.call(method, []))
    if isinstance(made, UserObject) and made.special(ctx, "__next__") is not None:
        return UserIterator(made)
    if is_awaitable(made):
        ctx.throw(TypeError, "__await__() returned a coroutine")
    if not isinstance(made, IteratorValue):
        ctx.throw(TypeError, f"__await__() returned non-iterator of type '{type_name(made.python_type())}'")
    return made
