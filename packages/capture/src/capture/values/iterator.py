"""Iterators: objects with a position.  ``step`` gives the next value, or None at the end.

They are lazy exactly as Python's are, so that code which consumes part of one leaves the rest to whoever comes after.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from capture.values.base import Tracer, Value, realize
from capture.values.constant import NONE, ConstantValue
from capture.values.function import BuiltinValue
from capture.values.mapping import DictValue
from capture.values.sequence import ListValue, TupleValue
from capture.values.user_object import UserObject


class IteratorValue(Value):
    def step(self, ctx: Tracer) -> Value | None:
        raise NotImplementedError

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name in ("__next__", "__iter__", "send", "close", "throw"):
            return BuiltinValue(next if name == "__next__" else iter, receiver=self)
        return super().attribute(ctx, name)

    def rest(self, ctx: Tracer) -> list[Value]:
        values = []
        while (value := self.step(ctx)) is not None:
            values.append(value)
        return values

    def elements(self, ctx: Tracer) -> list[Value]:
        return self.rest(ctx)


class SequenceIterator(IteratorValue):
    """Over anything with items in order; a list may still grow while it is iterated."""

    def __init__(self, owner: Value, items: Sequence[Value] | None = None) -> None:
        self.owner = owner
        self._items = items
        self.position = 0

    def python_type(self) -> type:
        return type(iter([])) if isinstance(self.owner, ListValue) else type(iter(()))

    @property
    def items(self) -> Sequence[Value]:
        return self.owner.items if isinstance(self.owner, ListValue) else (self._items or ())

    def step(self, ctx: Tracer) -> Value | None:
        items = self.items
        if self.position >= len(items):
            return None
        self.position += 1
        return realize(ctx, items[self.position - 1])

    def parts(self) -> Iterator[Value]:
        return iter(self.items[self.position :])


class RangeIterator(IteratorValue):
    def __init__(self, values: range) -> None:
        self.values = values
        self.position = 0

    def python_type(self) -> type:
        return type(iter(range(0)))

    def step(self, ctx: Tracer) -> Value | None:
        if self.position >= len(self.values):
            return None
        self.position += 1
        return ConstantValue(self.values[self.position - 1])


class CountIterator(IteratorValue):
    """``itertools.count``, and the numbers of ``enumerate``."""

    def __init__(self, start: Value, stride: Value) -> None:
        self.current = start
        self.stride = stride

    def python_type(self) -> type:
        return itertools.count

    def step(self, ctx: Tracer) -> Value | None:
        value = self.current
        self.current = ctx.call_builtin(operator.add, [value, self.stride], {})
        return value

    def parts(self) -> Iterator[Value]:
        yield self.current
        yield self.stride


class ZipIterator(IteratorValue):
    def __init__(self, iterators: Sequence[IteratorValue], *, strict: bool = False, cls: type = zip) -> None:
        self.iterators = list(iterators)
        self.strict = strict
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def step(self, ctx: Tracer) -> Value | None:
        values: list[Value] = []
        for index, iterator in enumerate(self.iterators):
            value = iterator.step(ctx)
            if value is None:
                self._check(ctx, index)
                return None
            values.append(value)
        return TupleValue(values) if values else None

    def _check(self, ctx: Tracer, index: int) -> None:
        if not self.strict:
            return
        if index:
            ctx.throw(
                ValueError, f"zip() argument {index + 1} is shorter than argument{'s 1-' if index > 1 else ' '}{index}"
            )
        for later, iterator in enumerate(self.iterators[1:], 2):
            if iterator.step(ctx) is not None:
                ctx.throw(
                    ValueError,
                    f"zip() argument {later} is longer than argument{'s 1-' if later > 2 else ' '}{later - 1}",
                )

    def parts(self) -> Iterator[Value]:
        return iter(self.iterators)


class MapIterator(IteratorValue):
    """``map`` and ``itertools.starmap``."""

    def __init__(self, function: Value, source: IteratorValue) -> None:
        self.function = function
        self.over = source

    def python_type(self) -> type:
        return map

    def step(self, ctx: Tracer) -> Value | None:
        values = self.over.step(ctx)
        return None if values is None else ctx.call(self.function, values.elements(ctx))

    def parts(self) -> Iterator[Value]:
        yield self.function
        yield self.over


class FilterIterator(IteratorValue):
    def __init__(self, predicate: Value, source: IteratorValue) -> None:
        self.predicate = predicate
        self.over = source

    def python_type(self) -> type:
        return filter

    def step(self, ctx: Tracer) -> Value | None:
        while (value := self.over.step(ctx)) is not None:
            verdict = value if self.predicate is NONE else ctx.call(self.predicate, [value])
            if realize(ctx, verdict).truth(ctx):
                return value
        return None

    def parts(self) -> Iterator[Value]:
        yield self.predicate
        yield self.over


class ChainIterator(IteratorValue):
    """``itertools.chain``: the iterables are opened one after the other."""

    def __init__(self, iterables: IteratorValue) -> None:
        self.iterables = iterables
        self.current: IteratorValue | None = None

    def python_type(self) -> type:
        return itertools.chain

    def step(self, ctx: Tracer) -> Value | None:
        while True:
            if self.current is None:
                following = self.iterables.step(ctx)
                if following is None:
                    return None
                self.current = iterate(ctx, following)
            value = self.current.step(ctx)
            if value is not None:
                return value
            self.current = None

    def parts(self) -> Iterator[Value]:
        yield self.iterables
        if self.current is not None:
            yield self.current


class GeneratorValue(IteratorValue):
    """A generator of the code under evaluation: a frame that is run from one ``yield`` to the next."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.started = False
        self.finished = False
        self.returned: Value = NONE

    def python_type(self) -> type:
        return type(_ for _ in ())

    def step(self, ctx: Tracer) -> Value | None:
        return None if self.finished else ctx.resume(self, NONE)


class UserIterator(IteratorValue):
    """An object with ``__next__``, stepped by calling it."""

    def __init__(self, owner: UserObject) -> None:
        self.owner = owner

    def python_type(self) -> type:
        return self.owner.python_type()

    def step(self, ctx: Tracer) -> Value | None:
        return next_or_none(ctx, self.owner)

    def parts(self) -> Iterator[Value]:
        yield self.owner


class CallableIterator(IteratorValue):
    """``iter(function, sentinel)``."""

    def __init__(self, function: Value, sentinel: Value) -> None:
        self.function = function
        self.sentinel = sentinel

    def python_type(self) -> type:
        return type(iter(int, 1))

    def step(self, ctx: Tracer) -> Value | None:
        value = ctx.call(self.function, [])
        return None if ctx.call_builtin(operator.eq, [value, self.sentinel], {}).truth(ctx) else value


def next_or_none(ctx: Tracer, owner: UserObject) -> Value | None:
    """One ``__next__``; StopIteration is the end."""
    method = owner.special(ctx, "__next__")
    if method is None:
        ctx.throw(TypeError, f"'{owner.cls.__name__}' object is not an iterator")
    return ctx.attempt(method, StopIteration)


def iterate(ctx: Tracer, value: Value) -> IteratorValue:
    """``iter(value)``."""
    value = realize(ctx, value)
    if isinstance(value, IteratorValue):
        return value
    if isinstance(value, ConstantValue) and isinstance(value.value, range):
        return RangeIterator(value.value)
    if isinstance(value, UserObject) or (isinstance(value, DictValue) and _own_iter(value)):
        return _iterate_object(ctx, value)
    return SequenceIterator(value, None if isinstance(value, ListValue) else value.elements(ctx))


def _own_iter(value: DictValue) -> bool:
    return hasattr(getattr(value.cls, "__iter__", None), "__code__")


def _iterate_object(ctx: Tracer, value: Value) -> IteratorValue:
    if isinstance(value, UserObject):
        method = value.special(ctx, "__iter__")
        if method is None:
            if value.special(ctx, "__getitem__") is not None:
                ctx.stop("iteration", f"{value.describe()} is iterated through `__getitem__`", "define `__iter__`")
            ctx.throw(TypeError, f"'{value.cls.__name__}' object is not iterable")
        made = ctx.call(method, [])
        if isinstance(made, UserObject):
            return UserIterator(made)
        return iterate(ctx, made)
    return SequenceIterator(value, value.elements(ctx))
