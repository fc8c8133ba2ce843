"""Iterators, which have a position and so must stay one object.

After a break CPython goes on with an iterator that is where the evaluation left it.  The code that is written makes a
new one of the same kind over the same objects and brings it to its position, by ``__setstate__`` or by steps that do
nothing else (``iterator_positions``).  What cannot be brought there unseen is refused, and CPython makes that iterator
from the start.

Each builder leaves one object on the stack.  Iterators within are loaded like any other value: whoever is reached
twice stays one object, because the first builder keeps it.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any

from capture.errors import SkipFrame
from capture.reasons import Kind, Reason
from capture.values.base import Value, root_package
from capture.values.constant import ConstantValue
from capture.values.generator import AsyncGeneratorValue, CoroutineValue, GeneratorValue, SuspendableValue
from capture.values.iterating import CallableIterator, ChainIterator, UserIterator
from capture.values.iterator import (
    CountIterator,
    DequeIterator,
    DictIterator,
    EnumerateIterator,
    FilterIterator,
    FoundIterator,
    MapIterator,
    PairIterator,
    RangeIterator,
    RepeatIterator,
    ReverseIterator,
    ReverseObjectIterator,
    RowIterator,
    SequenceIterator,
    SliceIterator,
    ZipIterator,
)
from capture.values.mapping import DictValue
from capture.values.sequence import ListValue, SetValue, TupleValue
from capture.writing.iterator_positions import (
    advanced,
    deque_iterator,
    dict_iterator,
    exhausted,
    reverse_iterator,
    sequence_iterator,
)
from capture.writing.writer import Builder, Writer, builds


def _kept(build: Builder) -> Builder:
    """The builder, but for keeping the iterator: it has a position, and must stay one object."""

    def build_and_keep(writer: Writer, value: Any) -> None:
        build(writer, value)
        # One on the stack for who asked, one in a variable for who asks again.
        writer.emit.copy()
        writer.keep(value, "iterator")

    return build_and_keep


@builds(GeneratorValue, CoroutineValue, AsyncGeneratorValue)
@_kept
def build_unstarted(writer: Writer, value: SuspendableValue) -> None:
    """Calls what would have made a generator or coroutine that has not run yet."""
    # A generator that has not started has no position but its arguments.
    writer.load(value.function)
    writer.emit.to_callable()
    count = writer.load_all([*value.args, *value.kwargs.values()])
    writer.emit.call_kw(count, tuple(value.kwargs)) if value.kwargs else writer.emit.call(count)


@builds(SequenceIterator)
@_kept
def build_sequence_iterator(writer: Writer, value: SequenceIterator) -> None:
    owner = value.owner
    # An iterator at its end stays there even if the list grows again: an empty one of the same kind that was run to its
    # end.
    if value.finished:
        writer.emit.load_callable(exhausted)
        writer.emit.load_const(owner.python_type() if _has_own_iterator(owner) else tuple)
        writer.emit.call(1)
    # A set's iterator cannot be brought to a place in what the set is now.
    elif value.has_moved():
        raise SkipFrame(Reason(Kind.REBUILD, "an iterator of a set that has changed since lives across a break"))
    # Over the owner itself, as later changes of a list have to be seen.
    elif _has_own_iterator(owner):
        writer.emit.load_callable(sequence_iterator)
        writer.load(owner)
        writer.emit.load_const(value.position)
        writer.emit.call(2)
    # Of other kinds only the items that are left matter, whoever they belonged to.
    else:
        writer.emit.build_tuple(writer.load_all(value.items[value.position :]))
        writer.emit.get_iter()


def _has_own_iterator(owner: Value) -> bool:
    """True if iterators over this kind of owner can be brought to a position."""
    return isinstance(owner, (ListValue, TupleValue, SetValue, ConstantValue))


@builds(ReverseIterator)
@_kept
def build_reverse_iterator(writer: Writer, value: ReverseIterator) -> None:
    _call_with_position(writer, value)


@builds(ReverseObjectIterator)
@_kept
def build_reverse_object_iterator(writer: Writer, value: ReverseObjectIterator) -> None:
    if root_package(value.owner.cls) != "torch":  # making it asks for the length again, and may be noticed
        raise SkipFrame(Reason(Kind.REBUILD, f"`reversed` of {value.owner.describe()} lives across a break"))
    _call_with_position(writer, value)


def _call_with_position(writer: Writer, value: ReverseIterator | ReverseObjectIterator) -> None:
    writer.emit.load_callable(reverse_iterator)
    writer.load(value.owner)
    writer.emit.load_const(value.position)
    writer.emit.call(2)


@builds(DictIterator)
@_kept
def build_dict_iterator(writer: Writer, value: DictIterator) -> None:
    if not value.finished and (value.has_moved() or len(value.owner.entries) != len(value.keys)):
        raise SkipFrame(Reason(Kind.REBUILD, "an iterator of a dict that has changed since lives across a break"))
    writer.emit.load_callable(dict_iterator)
    # At its end it has let go of the dict: one over an empty dict stands for it, one step further than there are keys.
    writer.load(DictValue(cls=OrderedDict if value.is_ordered else dict) if value.finished else value.owner)
    writer.emit.load_const(value.which)
    # The step beyond the last key is what makes an iterator a finished one.
    writer.emit.load_const(value.position + value.finished)
    writer.emit.load_const(value.backwards)
    writer.emit.call(4)


@builds(DequeIterator)
@_kept
def build_deque_iterator(writer: Writer, value: DequeIterator) -> None:
    if value.has_moved():
        raise SkipFrame(Reason(Kind.REBUILD, "an iterator of a deque that has changed since lives across a break"))
    writer.emit.load_callable(deque_iterator)
    writer.load(value.owner)
    writer.emit.load_const(value.position)
    writer.emit.load_const(value.backwards)
    writer.emit.call(3)


@builds(RangeIterator)
@_kept
def build_range_iterator(writer: Writer, value: RangeIterator) -> None:
    # A range can be cut: its rest is a range.
    writer.emit.load_const(value.values[value.position :])
    writer.emit.get_iter()


@builds(UserIterator)
def build_user_iterator(writer: Writer, value: UserIterator) -> None:
    writer.load(value.owner)


@builds(CallableIterator)
@_kept
def build_callable_iterator(writer: Writer, value: CallableIterator) -> None:
    # It would call the function again.
    if value.finished:
        raise SkipFrame(Reason(Kind.REBUILD, "an iterator of calls that has ended lives across a break"))
    writer.call_const(iter, value.function, value.sentinel)


@builds(RepeatIterator)
@_kept
def build_repeat(writer: Writer, value: RepeatIterator) -> None:
    times = [] if value.times is None else [ConstantValue(value.times)]
    writer.call_const(itertools.repeat, value.value, *times)


@builds(RowIterator)
@_kept
def build_rows(writer: Writer, value: RowIterator) -> None:
    emit = writer.emit
    # Rows are not cut: the same function over the same pools is stepped as often, which calls nothing of the program.
    emit.load_callable(advanced)
    emit.load_callable(value.cls)
    for pool in value.pools:
        emit.build_tuple(writer.load_all(pool))
    for option in value.options:
        emit.load_const(option)
    emit.call(len(value.pools) + len(value.options))
    emit.load_const(value.position)
    emit.call(2)


@builds(FoundIterator)
@_kept
def build_found(writer: Writer, value: FoundIterator) -> None:
    """The function again, of the same constants, and as many steps."""
    writer.emit.load_callable(advanced)
    writer.emit.load_callable(value.function)
    writer.emit.call(writer.load_all(value.operands))
    writer.emit.load_const(value.position)
    writer.emit.call(2)


@builds(SliceIterator)
@_kept
def build_slice_iterator(writer: Writer, value: SliceIterator) -> None:
    # Counted from where the inner iterator is by now: ``islice(over, 2, 10, 3)`` after two results (taken 6, following
    # 8) goes on as ``islice(over, 2, 4, 3)``.
    start = value.following - value.taken
    stop = None if value.stop is None else max(value.stop - value.taken, 0)
    bounds = (0, 0, 1) if value.finished else (min(start, stop) if stop is not None else start, stop, value.stride)
    writer.call_const(itertools.islice, value.over, *map(ConstantValue, bounds))


@builds(PairIterator)
@_kept
def build_pairwise(writer: Writer, value: PairIterator) -> None:
    emit = writer.emit
    emit.load_callable(itertools.pairwise)
    # A pair begins with the item before, which is put in front of the rest.
    if value.previous is None:
        writer.load(value.over)
    else:
        emit.load_callable(itertools.chain)
        emit.build_tuple(writer.load_all([value.previous]))
        writer.load(value.over)
        emit.call(2)
    emit.call(1)


@builds(CountIterator)
@_kept
def build_count(writer: Writer, value: CountIterator) -> None:
    writer.call_const(itertools.count, value.current, value.stride)


@builds(ZipIterator)
@_kept
def build_zip(writer: Writer, value: ZipIterator) -> None:
    writer.emit.load_callable(zip)
    count = writer.load_all(value.iterators)
    writer.load(ConstantValue(value.strict))
    writer.emit.call_kw(count + 1, ("strict",))


@builds(EnumerateIterator)
@_kept
def build_enumerate(writer: Writer, value: EnumerateIterator) -> None:
    # Numbers go on from where they are; nothing of those before is kept.
    writer.call_const(enumerate, value.over, value.numbers.current)


@builds(MapIterator)
@_kept
def build_map_iterator(writer: Writer, value: MapIterator) -> None:
    # ``map`` zips its iterables itself; anything else gives rows already.
    if isinstance(value.over, ZipIterator):
        writer.call_const(map, value.function, *value.over.iterators)
    else:
        writer.call_const(itertools.starmap, value.function, value.over)


@builds(FilterIterator)
@_kept
def build_filter(writer: Writer, value: FilterIterator) -> None:
    writer.call_const(filter, value.predicate, value.over)


@builds(ChainIterator)
@_kept
def build_chain(writer: Writer, value: ChainIterator) -> None:
    # The iterables that were not opened yet; in front of them the rest of the one that is open.
    writer.emit.load_callable(itertools.chain.from_iterable)
    writer.load(value.iterables)
    writer.emit.call(1)
    if value.current is not None:
        rest = writer.fresh("rest")
        writer.emit.store_fast(rest)
        writer.emit.load_callable(itertools.chain)
        writer.load(value.current)
        writer.emit.load_fast(rest)
        writer.emit.call(2)
