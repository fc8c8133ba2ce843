"""Results of ``iter()``, and iterators whose steps are code of the program."""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Iterator

from capture.errors import UserRaised
from capture.reasons import Kind
from capture.values.base import Tracer, Value, is_iterable, realize, type_name
from capture.values.constant import ConstantValue, is_none
from capture.values.iterator import DequeIterator, DictIterator, IteratorValue, RangeIterator, SequenceIterator
from capture.values.mapping import DictValue, DictView
from capture.values.sequence import ListValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject


class UserIterator(IteratorValue):
    """An object with ``__next__``, stepped by calling it."""

    def __init__(self, owner: UserObject) -> None:
        self.owner = owner

    def python_type(self) -> type:
        return self.owner.python_type()

    def advance(self, ctx: Tracer) -> Value | None:
        return next_or_none(ctx, self.owner)

    def send(self, ctx: Tracer, sent: Value) -> Value | None:
        # As `yield from` does it: None steps, and only other values need an object with a ``send``.
        method = self.owner.special(ctx, "__next__") if is_none(sent) else self.owner.attribute(ctx, "send")
        assert method is not None
        try:
            return ctx.call(method, [] if is_none(sent) else [sent])
        except UserRaised as raised:
            if not issubclass(raised.value.python_type(), StopIteration):
                raise
            # What `yield from` comes to; an iterator that ends by itself has None.
            self.returned = raised.value.attribute(ctx, "value")
            return None

    def throw(self, ctx: Tracer, raised: UserRaised) -> Value | None:
        if self._method(ctx, "throw") is not None:
            ctx.stop(Kind.GENERATOR, f"an exception is thrown into {self.owner.describe()}")
        # Without a ``throw`` an exception goes past it, to who threw it.
        raise raised

    def close(self, ctx: Tracer) -> None:
        """Closes it, when what waits for it is closed."""
        method = self._method(ctx, "close")
        if method is not None:
            ctx.call(method, [])

    def _method(self, ctx: Tracer, name: str) -> Value | None:
        found = self.owner.plain_attribute(ctx, name)
        # CPython asks for the attribute, and a ``__getattr__`` would see that it does.
        if found is None and self.owner.special(ctx, "__getattr__") is not None:
            ctx.stop(Kind.GENERATOR, f"{self.owner.describe()} is asked for `{name}`, which its __getattr__ answers")
        return found

    def parts(self) -> Iterator[Value]:
        yield self.owner


class CallableIterator(IteratorValue):
    """``iter(function, sentinel)``."""

    def __init__(self, function: Value, sentinel: Value) -> None:
        self.function = function
        self.sentinel = sentinel
        self.finished = False

    def python_type(self) -> type:
        return type(iter(int, 1))

    def advance(self, ctx: Tracer) -> Value | None:
        if self.finished:
            return None
        self.finished = True  # as in C, whatever happens in the call
        # The sentinel is asked, with itself on the left, and not the value.
        value = ctx.call(self.function, [])
        self.finished = ctx.call_builtin(operator.eq, [self.sentinel, value], {}).truth(ctx)
        return None if self.finished else value

    def parts(self) -> Iterator[Value]:
        yield self.function
        yield self.sentinel


class ChainIterator(IteratorValue):
    """``itertools.chain``: the iterables are opened one after the other."""

    def __init__(self, iterables: IteratorValue) -> None:
        self.iterables = iterables
        self.current: IteratorValue | None = None

    def python_type(self) -> type:
        return itertools.chain

    def advance(self, ctx: Tracer) -> Value | None:
        while True:
            if self.current is None:
                following = self.iterables.step(ctx)
                if following is None:
                    return None
                # Opened when it is needed, as in C: an iterable that cannot be iterated is an error only once its turn
                # comes.
                self.current = iterate(ctx, following)
            value = self.current.step(ctx)
            if value is not None:
                return value
            self.current = None

    def parts(self) -> Iterator[Value]:
        yield self.iterables
        if self.current is not None:
            yield self.current


def next_or_none(ctx: Tracer, owner: UserObject) -> Value | None:
    """One ``__next__``; StopIteration is the end."""
    method = owner.special(ctx, "__next__")
    if method is None:
        ctx.throw(TypeError, f"'{type_name(owner.cls)}' object is not an iterator")
    return ctx.attempt(method, StopIteration)


def has_items(ctx: Tracer, value: Value) -> bool:
    """True if ``iter()`` takes it; a tensor without dimensions it refuses."""
    value = realize(ctx, value)
    return is_iterable(value) and not (isinstance(value, TensorValue) and not value.fake.dim())


def iterate(ctx: Tracer, value: Value) -> IteratorValue:
    """``iter(value)``."""
    value = realize(ctx, value)
    if isinstance(value, IteratorValue):
        return value
    if isinstance(value, ConstantValue) and isinstance(value.value, range):
        return RangeIterator(value.value)
    # A subclass of a mapping may have an ``__iter__`` in Python; without one it is walked as what it derives from.
    if isinstance(value, UserObject) or (isinstance(value, DictValue) and _own_iter(value)):
        return _iterate_object(ctx, value)
    if isinstance(value, DictValue):
        return DictIterator(value, "keys")
    if isinstance(value, DictView):
        return DictIterator(value.owner, value.which)
    if isinstance(value, ListValue) and value.cls is collections.deque:
        return DequeIterator(value)
    # A list is read at each step, as it may grow meanwhile; what cannot change is read once.
    return SequenceIterator(value, None if isinstance(value, ListValue) else value.elements(ctx))


def _own_iter(value: DictValue) -> bool:
    """True if a class of mappings has an ``__iter__`` in Python."""
    return hasattr(getattr(value.cls, "__iter__", None), "__code__")


def _iterate_object(ctx: Tracer, value: Value) -> IteratorValue:
    """The iterator that the program's ``__iter__`` gives, with CPython's refusals of what is none."""
    if isinstance(value, UserObject):
        method = value.special(ctx, "__iter__")
        if method is None:
            # The old protocol counts until an IndexError: no iterator stands for where it is.
            if value.special(ctx, "__getitem__") is not None:
                ctx.stop(Kind.ITERATION, f"{value.describe()} is iterated through `__getitem__`", "define `__iter__`")
            ctx.throw(TypeError, f"'{type_name(value.cls)}' object is not iterable")
        made = realize(ctx, ctx.call(method, []))
        # CPython looks for ``__next__`` when it gets the iterator, not when it steps it.
        if isinstance(made, UserObject):
            if made.special(ctx, "__next__") is None:
                ctx.throw(TypeError, f"iter() returned non-iterator of type '{type_name(made.cls)}'")
            return UserIterator(made)
        if not isinstance(made, IteratorValue):
            ctx.throw(TypeError, f"iter() returned non-iterator of type '{type_name(made.python_type())}'")
        return made
    return SequenceIterator(value, value.elements(ctx))
