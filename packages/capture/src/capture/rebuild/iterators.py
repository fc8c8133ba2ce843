"""Iterators, which have a position and so must stay one object."""

from __future__ import annotations

import itertools
from typing import Any

from capture.emit import Builder, Writer, builds
from capture.values.constant import ConstantValue
from capture.values.iterator import (
    ChainIterator,
    CountIterator,
    FilterIterator,
    MapIterator,
    RangeIterator,
    SequenceIterator,
    ZipIterator,
)
from capture.values.sequence import ListValue


def _kept(build: Builder) -> Builder:
    """An iterator has a position: it must stay one object."""

    def build_and_keep(writer: Writer, value: Any) -> None:
        build(writer, value)
        writer.emit.copy()
        writer.keep(value, "iterator")

    return build_and_keep


@builds(SequenceIterator)
@_kept
def build_sequence_iterator(writer: Writer, value: SequenceIterator) -> None:
    if isinstance(value.owner, ListValue):
        writer.load(value.owner)
        writer.emit.load_const(slice(value.position, None))
        writer.emit.binary_subscr()
    else:
        writer.emit.build_tuple(writer.load_all(value.parts()))
    writer.emit.get_iter()


@builds(RangeIterator)
@_kept
def build_range_iterator(writer: Writer, value: RangeIterator) -> None:
    writer.emit.load_const(value.values[value.position :])
    writer.emit.get_iter()


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


@builds(MapIterator)
@_kept
def build_map_iterator(writer: Writer, value: MapIterator) -> None:
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
