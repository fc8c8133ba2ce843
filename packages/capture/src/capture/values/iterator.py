"""Iterators: objects with a position.  ``step`` gives the next value, or None at the end.

They are lazy exactly as Python's are, so that code which consumes part of one leaves the rest to whoever comes after.
"""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Any

from capture.errors import UserRaised
from capture.guards.sources import Source
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize, type_name
from capture.values.constant import NONE, ConstantValue, is_none
from capture.values.function import BuiltinValue
from capture.values.mapping import DictValue
from capture.values.partial import PartialValue
from capture.values.sequence import ListValue, SequenceValue, SetValue, TupleValue
from capture.values.user_object import UserObject


class IteratorValue(Value):
    """A kind says in ``advance`` what comes next; who iterates calls ``step``, and ``yield from`` calls ``send``."""

    returned: Value = NONE
    """The result that it ended with."""

    def advance(self, ctx: Tracer) -> Value | None:
        raise NotImplementedError

    def step(self, ctx: Tracer) -> Value | None:
        """The next value.  A StopIteration out of a function that the iterator calls is its end, as in C."""
        # A position is an effect: one that came in has to be stepped for real, too.
        ctx.changed(self)
        try:
            return self.advance(ctx)
        except UserRaised as raised:
            if issubclass(raised.value.python_type(), StopIteration):
                return None
            raise

    def send(self, ctx: Tracer, sent: Value) -> Value | None:
        if not is_none(sent):
            ctx.throw(AttributeError, f"'{type_name(self.python_type())}' object has no attribute 'send'")
        return self.step(ctx)

    def throw(self, ctx: Tracer, raised: UserRaised) -> Value | None:
        """Raises the exception where the iterator is waited for: those made in C know nothing of it."""
        raise raised

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name == "__next__":
            return BuiltinValue(next, receiver=self)
        if name == "__iter__":
            return BuiltinValue(iter, receiver=self)
        return super().attribute(ctx, name)

    def rest(self, ctx: Tracer) -> list[Value]:
        values = []
        while (value := self.step(ctx)) is not None:
            values.append(value)
        return values

    def elements(self, ctx: Tracer) -> list[Value]:
        return self.rest(ctx)


class OutsideIterator(IteratorValue):
    """An iterator that came into being outside of the evaluated code: CPython steps it, one item at a time.

    That is also what a loop goes on with after a break inside it: its rounds share what was compiled for one.
    """

    def __init__(self, cls: type, source: Source) -> None:
        self.cls = cls
        self.source = source

    def python_type(self) -> type:
        return self.cls

    def advance(self, ctx: Tracer) -> Value | None:
        ctx.stop(Kind.ITERATOR, f"a {self.cls.__name__} that was made outside of the function is stepped")


class SequenceIterator(IteratorValue):
    """Over anything with items in order.  A list may still change while it is iterated; other containers may not."""

    def __init__(self, owner: Value, items: Sequence[Value] | None = None) -> None:
        self.owner = owner
        # What is iterated where the owner is no list: taken once, as it cannot change (or a change is refused).
        self._items = items
        # The order of a set is CPython's affair: any change of its items may move the others.
        self._keys = tuple(owner.entries) if isinstance(owner, SetValue) else ()
        # Whoever goes on after the error gets it again, as in CPython.
        self._has_failed = False
        self.position = 0
        self.finished = False

    def _insist_on_the_keys(self, ctx: Tracer, owner: SetValue) -> None:
        if len(owner.entries) != len(self._keys) or self._has_failed:
            self._has_failed = True
            ctx.throw(RuntimeError, "Set changed size during iteration")
        if self.has_moved():
            ctx.stop(Kind.ITERATION, "a set is iterated while its items change")

    def has_moved(self) -> bool:
        """True if items of a set came or went since the iterator was made."""
        return isinstance(self.owner, SetValue) and tuple(self.owner.entries) != self._keys

    def python_type(self) -> type:
        if isinstance(self.owner, (ListValue, TupleValue)):
            kind = self.owner.cls if self.owner.cls in (list, deque) else tuple
            return type(iter(kind()))
        if isinstance(self.owner, ConstantValue):
            return type(iter(self.owner.value))
        if isinstance(self.owner, SetValue):
            return type(iter(set()))
        return type(iter(()))

    @property
    def items(self) -> Sequence[Value]:
        # Of a list the items as they are now.
        return self.owner.items if isinstance(self.owner, ListValue) else (self._items or ())

    def advance(self, ctx: Tracer) -> Value | None:
        items = self.items
        if isinstance(self.owner, SetValue) and not self.finished:
            self._insist_on_the_keys(ctx, self.owner)
        # Once at the end always at the end, though a list may grow again.
        if self.finished or self.position >= len(items):
            self.finished = True
            return None
        self.position += 1
        return realize(ctx, items[self.position - 1])

    def parts(self) -> Iterator[Value]:
        # Over the owner itself as long as it may still be read; at its end CPython lets go of it.
        if isinstance(self.owner, (ListValue, TupleValue, SetValue)) and not self.finished:
            yield self.owner
        else:
            yield from () if self.finished else self.items[self.position :]


class DequeIterator(IteratorValue):
    """Over a deque, forwards or backwards, until items come or go."""

    def __init__(self, owner: ListValue, *, backwards: bool = False) -> None:
        self.owner = owner
        self.backwards = backwards
        # C counts what is left, and compares how often items moved.
        self.length = self._left = len(owner.items)
        self._moves = owner.moves

    @property
    def position(self) -> int:
        return self.length - self._left

    def has_moved(self) -> bool:
        """True if items of the deque came or went since the iterator was made."""
        return self.owner.moves != self._moves

    def python_type(self) -> type:
        return type(reversed(deque()) if self.backwards else iter(deque()))

    def advance(self, ctx: Tracer) -> Value | None:
        # In this order: backwards its end comes before the question whether it changed.
        if self.backwards and not self._left:
            return None
        if self.has_moved():
            self._left = 0
            ctx.throw(RuntimeError, "deque mutated during iteration")
        if not self._left:
            return None
        self._left -= 1
        return realize(ctx, self.owner.items[self._left if self.backwards else self.position - 1])

    def parts(self) -> Iterator[Value]:
        yield self.owner


class ReverseIterator(IteratorValue):
    """``reversed`` of a list, which may still change, or of a tuple."""

    def __init__(self, owner: SequenceValue) -> None:
        self.owner = owner
        # The index of the next item; a list may shrink below it, which ends the iteration.
        self.position = len(owner.items) - 1

    def python_type(self) -> type:
        return type(reversed([])) if self.owner.cls is list else reversed

    def advance(self, ctx: Tracer) -> Value | None:
        # A list that has shrunk below the position ends it for good.
        if not 0 <= self.position < len(self.owner.items):
            self.position = -1
            return None
        self.position -= 1
        return realize(ctx, self.owner.items[self.position + 1])

    def parts(self) -> Iterator[Value]:
        yield self.owner


class ReverseObjectIterator(IteratorValue):
    """``reversed`` of an object that has a length and items by number."""

    def __init__(self, owner: UserObject, item: Value, position: int) -> None:
        self.owner = owner
        self.item = item
        self.position = position

    def python_type(self) -> type:
        return reversed

    def advance(self, ctx: Tracer) -> Value | None:
        if self.position < 0:
            return None
        taken, self.position = self.position, self.position - 1
        # IndexError ends it, as in C, where the length was wrong.
        found = ctx.attempt(PartialValue(self.item, [ConstantValue(taken)], {}), IndexError, StopIteration)
        if found is None:
            self.position = -1
        return found

    def parts(self) -> Iterator[Value]:
        yield self.owner
        yield self.item


class DictIterator(IteratorValue):
    """Over the keys, values or items of a dict, forwards or backwards."""

    def __init__(self, owner: DictValue, which: str, *, backwards: bool = False) -> None:
        self.owner = owner
        self.which = which
        self.backwards = backwards
        # By hash, as ``entries`` are; taken at the beginning to notice changes.
        self.keys = list(reversed(owner.entries) if backwards else owner.entries)
        self.position = 0
        self._moves = owner.moves
        self._has_failed = False
        self.is_ordered = owner.cls is OrderedDict
        # An iterator of an OrderedDict ends with its last key and does not notice what comes later; that of a dict only
        # when it is asked once more.
        self.finished = self.is_ordered and not self.keys

    def python_type(self) -> type:
        view = getattr(self.owner.cls() if self.owner.cls is OrderedDict else {}, self.which)()
        return type(reversed(view)) if self.backwards else type(iter(view))

    def advance(self, ctx: Tracer) -> Value | None:
        if self.finished:
            return None
        self._insist_on_the_keys(ctx)
        if self.position >= len(self.keys):
            self.finished = True
            return None
        key, value = self.owner.entries[self.keys[self.position]]
        self.position += 1
        self.finished = self.is_ordered and self.position == len(self.keys)
        if self.which == "items":
            return TupleValue([key, value])
        return realize(ctx, key if self.which == "keys" else value)

    def has_moved(self) -> bool:
        """True if keys came or went since the iterator was made."""
        return self.owner.moves != self._moves

    def _insist_on_the_keys(self, ctx: Tracer) -> None:
        if self.is_ordered and self.has_moved():
            self.finished = True
            ctx.throw(RuntimeError, "OrderedDict mutated during iteration")
        # The number of keys is all that a dict compares; as many others in their place go unnoticed, in an order that
        # is CPython's affair.
        if len(self.owner.entries) != len(self.keys) or self._has_failed:
            self._has_failed = True
            kind = "OrderedDict" if self.is_ordered else "dictionary"
            ctx.throw(RuntimeError, f"{kind} changed size during iteration")
        if self.has_moved() or any(key not in self.owner.entries for key in self.keys[self.position :][:1]):
            ctx.stop(Kind.ITERATION, "a dict is iterated while its keys change")

    def parts(self) -> Iterator[Value]:
        yield self.owner


class RangeIterator(IteratorValue):
    """Over a ``range``."""

    def __init__(self, values: range) -> None:
        self.values = values
        self.position = 0

    def python_type(self) -> type:
        return type(iter(self.values))

    def advance(self, ctx: Tracer) -> Value | None:
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

    def advance(self, ctx: Tracer) -> Value | None:
        value = self.current
        # Numbers may be symbols, or of the program's own class with an ``__add__``.
        self.current = ctx.call_builtin(operator.add, [value, self.stride], {})
        return value

    def parts(self) -> Iterator[Value]:
        yield self.current
        yield self.stride


class RepeatIterator(IteratorValue):
    """``itertools.repeat``; ``times`` is None where there is no end."""

    def __init__(self, value: Value, times: int | None) -> None:
        self.value = value
        self.times = times

    def python_type(self) -> type:
        return itertools.repeat

    def advance(self, ctx: Tracer) -> Value | None:
        # A number that is used up: ``None`` is no end at all.
        if self.times is not None:
            if self.times <= 0:
                return None
            self.times -= 1
        return realize(ctx, self.value)

    def parts(self) -> Iterator[Value]:
        yield self.value


class RowIterator(IteratorValue):
    """``itertools.product`` and its kin: rows of items, chosen by the same function called on positions."""

    def __init__(self, cls: type, pools: Sequence[Sequence[Value]], options: Sequence[int]) -> None:
        self.cls = cls
        self.pools = pools
        self.options = list(options)
        self.position = 0
        # Of positions: what is at them may be anything, and is never compared.
        self._rows = self._choices()

    def _choices(self) -> Iterator[tuple[int, ...]]:
        if self.cls is itertools.product:
            return itertools.product(*(range(len(pool)) for pool in self.pools))
        made: Iterator[tuple[int, ...]] = self.cls(range(len(self.pools[0])), *self.options)
        return made

    def python_type(self) -> type:
        return self.cls

    def advance(self, ctx: Tracer) -> Value | None:
        row = next(self._rows, None)
        if row is None:
            return None
        self.position += 1
        # A product has a pool for each column, the others one for all.
        pools = self.pools if self.cls is itertools.product else [self.pools[0]] * len(row)
        return TupleValue([pool[index] for pool, index in zip(pools, row, strict=True)])

    def parts(self) -> Iterator[Value]:
        for pool in self.pools:
            yield from pool


class FoundIterator(IteratorValue):
    """Over what a function of constants finds, whose iterator is C's own: ``finditer`` of a pattern."""

    def __init__(self, cls: type, function: object, operands: Sequence[Value], found: Sequence[Value]) -> None:
        self.cls = cls
        self.function = function
        self.operands = list(operands)
        self.position = 0
        """The steps that were taken, the one beyond the end included."""
        self._found = found

    def python_type(self) -> type:
        return self.cls

    def advance(self, ctx: Tracer) -> Value | None:
        if self.position < len(self._found):
            self.position += 1
            return self._found[self.position - 1]
        self.position = len(self._found) + 1
        return None

    def parts(self) -> Iterator[Value]:
        yield from self.operands


class SliceIterator(IteratorValue):
    """``itertools.islice``."""

    def __init__(self, over: IteratorValue, bounds: slice) -> None:
        self.over = over
        self.following = bounds.start or 0
        self.stop = bounds.stop
        self.stride = bounds.step or 1
        self.taken = 0
        self.finished = False

    def python_type(self) -> type:
        return itertools.islice

    def advance(self, ctx: Tracer) -> Value | None:
        # Items before the next one wanted are taken and dropped.
        goal = self.following if self.stop is None else min(self.following, self.stop)
        while not self.finished and self.taken < goal:
            self._take(ctx)
        if self.finished or (self.stop is not None and self.following >= self.stop):
            self.finished = True
            return None
        self.following += self.stride
        if self.stop is not None:
            # Not beyond the end: a later call would take items that belong to who comes after.
            self.following = min(self.following, self.stop)
        return self._take(ctx)

    def _take(self, ctx: Tracer) -> Value | None:
        self.finished = True  # as in C, also where the step raises
        value = self.over.step(ctx)
        self.taken += 1
        self.finished = value is None
        return value

    def parts(self) -> Iterator[Value]:
        yield self.over


class ZipIterator(IteratorValue):
    """``zip``, and the rows of arguments for ``map``: ends with the shortest of its iterators."""

    def __init__(self, iterators: Sequence[IteratorValue], *, strict: bool = False, cls: type = zip) -> None:
        self.iterators = list(iterators)
        self.strict = strict
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def advance(self, ctx: Tracer) -> Value | None:
        values: list[Value] = []
        for index, iterator in enumerate(self.iterators):
            value = iterator.step(ctx)
            if value is None:
                # The first ones were stepped already: those items are lost, as in CPython.
                self._check(ctx, index)
                return None
            values.append(value)
        # ``zip()`` of nothing is empty.
        return TupleValue(values) if values else None

    def _check(self, ctx: Tracer, index: int) -> None:
        if not self.strict:
            return
        if index:
            ctx.throw(
                ValueError, f"zip() argument {index + 1} is shorter than argument{'s 1-' if index > 1 else ' '}{index}"
            )
        # The first has ended; with ``strict`` the others must end as well.
        for later, iterator in enumerate(self.iterators[1:], 2):
            if iterator.step(ctx) is not None:
                ctx.throw(
                    ValueError,
                    f"zip() argument {later} is longer than argument{'s 1-' if later > 2 else ' '}{later - 1}",
                )

    def parts(self) -> Iterator[Value]:
        return iter(self.iterators)


class EnumerateIterator(IteratorValue):
    """``enumerate``; its numbers are a `CountIterator`, as they may be symbols."""

    def __init__(self, numbers: CountIterator, over: IteratorValue) -> None:
        self.numbers = numbers
        self.over = over

    def python_type(self) -> type:
        return enumerate

    def step(self, ctx: Tracer) -> Value | None:
        value = self.over.step(ctx)
        if value is None:
            return None
        number = self.numbers.current
        self.numbers.step(ctx)
        return TupleValue([number, value])

    def parts(self) -> Iterator[Value]:
        yield self.numbers
        yield self.over


class MapIterator(IteratorValue):
    """``map`` and ``itertools.starmap``."""

    def __init__(self, function: Value, source: IteratorValue) -> None:
        self.function = function
        self.over = source

    def python_type(self) -> type:
        return map

    def advance(self, ctx: Tracer) -> Value | None:
        values = self.over.step(ctx)
        return None if values is None else ctx.call(self.function, values.elements(ctx))

    def parts(self) -> Iterator[Value]:
        yield self.function
        yield self.over


class FilterIterator(IteratorValue):
    """``filter``; without a predicate items are kept by their own truth."""

    def __init__(self, predicate: Value, source: IteratorValue) -> None:
        self.predicate = predicate
        self.over = source

    def python_type(self) -> type:
        return filter

    def advance(self, ctx: Tracer) -> Value | None:
        while (value := self.over.step(ctx)) is not None:
            verdict = value if is_none(self.predicate) else ctx.call(self.predicate, [value])
            if realize(ctx, verdict).truth(ctx):
                return value
        return None

    def parts(self) -> Iterator[Value]:
        yield self.predicate
        yield self.over


class PairIterator(IteratorValue):
    """``itertools.pairwise``."""

    def __init__(self, over: IteratorValue) -> None:
        self.over = over
        self.previous: Value | None = None

    def python_type(self) -> type:
        return itertools.pairwise

    def advance(self, ctx: Tracer) -> Value | None:
        if self.previous is None:
            self.previous = self.over.step(ctx)
        earlier = self.previous  # taking the next one may ask this iterator itself
        following = None if earlier is None else self.over.step(ctx)
        if earlier is None or following is None:
            return None
        self.previous = following
        return TupleValue([earlier, following])

    def parts(self) -> Iterator[Value]:
        yield self.over
        if self.previous is not None:
            yield self.previous


def taken_result(ended: Any) -> tuple[Value, ...]:
    """The arguments of the StopIteration at the end: the result, the first time that it is asked for."""
    result, ended.returned = ended.returned, NONE
    return () if is_none(result) else (result,)
