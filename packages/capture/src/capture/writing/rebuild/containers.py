"""Containers, slices and views."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType

from capture.values.mapping import DictValue, DictView
from capture.values.sequence import ListValue, SetValue, SliceValue, TupleValue
from capture.writing.writer import Writer, builds


@builds(TupleValue)
def build_tuple(writer: Writer, value: TupleValue) -> None:
    plain = value.cls is tuple
    # Past ``__new__`` and ``__init__`` of the program, which have run and may take other arguments.
    if not plain:
        writer.emit.load_callable(_new_in_c(value.cls))
        writer.emit.load_const(value.cls)
    writer.emit.build_tuple(writer.load_all(value.items))
    if not plain:
        writer.emit.call(2)
    if value.items:
        writer.emit.copy()
        writer.keep(value, "tuple")


def _new_in_c(cls: type) -> Callable[..., object]:
    """``__new__`` of the nearest class that has one made in C: of tuples, or of sizes and the results of operators."""
    return next(base.__new__ for base in cls.__mro__ if isinstance(vars(base).get("__new__"), BuiltinFunctionType))


@builds(ListValue)
def build_list(writer: Writer, value: ListValue) -> None:
    if value.cls is list:
        writer.emit.build_list(writer.load_all(value.items))
    else:
        writer.emit.load_callable(value.cls)
        writer.emit.build_list(writer.load_all(value.items))
        writer.emit.load_const(value.maxlen)
        writer.emit.call(2)
    writer.emit.copy()
    writer.keep(value, "list")


@builds(DictValue)
def build_dict(writer: Writer, value: DictValue) -> None:
    arguments = 1
    if value.cls is not dict:
        writer.emit.load_callable(value.cls)
    if value.default_factory is not None:
        writer.load(value.default_factory)
        arguments = 2
    writer.emit.build_map(writer.load_all(value.pairs()) // 2)
    if value.cls is not dict:
        writer.emit.call(arguments)
    writer.emit.copy()
    writer.keep(value, "dict")
    write_attributes_of_dict(writer, value)


def write_attributes_of_dict(writer: Writer, value: DictValue) -> None:
    for name, item in value.assigned.items():
        writer.load(item)
        writer.load(value)
        writer.emit.store_attr(name)


@builds(SetValue)
def build_set(writer: Writer, value: SetValue) -> None:
    if not value.entries or value.cls is frozenset:
        writer.emit.load_callable(value.cls)
        writer.emit.build_tuple(writer.load_all(value.parts()))
        writer.emit.call(1)
    else:
        writer.emit.build_set(writer.load_all(value.parts()))
    writer.emit.copy()
    writer.keep(value, "set")


@builds(SliceValue)
def build_slice(writer: Writer, value: SliceValue) -> None:
    writer.emit.build_slice(writer.load_all(value.parts()))


@builds(DictView)
def build_view(writer: Writer, value: DictView) -> None:
    writer.load(value.owner)
    writer.emit.load_attr(value.which)
    writer.emit.to_callable()
    writer.emit.call(0)
