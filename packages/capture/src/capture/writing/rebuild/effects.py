"""Writers of what the evaluated code changed in objects that existed before it."""

from __future__ import annotations

from collections.abc import Callable

from capture._engine import refill_mapping, refill_sequence
from capture.values.base import Value
from capture.values.classes import ClassValue
from capture.values.constant import UNBOUND, ConstantValue
from capture.values.container_object import ContainerObject
from capture.values.context_var import ContextVarValue
from capture.values.exception import ExceptionValue
from capture.values.exception_group import ExceptionGroupValue
from capture.values.function import CellValue, NamespaceValue
from capture.values.mapping import DictValue
from capture.values.module import ModuleValue
from capture.values.sequence import ListValue, OutsideList, SetValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject
from capture.writing.rebuild.containers import write_attributes_of_dict
from capture.writing.rebuild.objects import fill_contents, set_pending, write_attributes
from capture.writing.writer import Writer, replays


@replays(UserObject, ModuleValue, ExceptionValue, ExceptionGroupValue, ContainerObject)
def replay_object(writer: Writer, value: UserObject) -> None:
    write_attributes(writer, value)


@replays(OutsideList)
def replay_outside_list(writer: Writer, value: OutsideList) -> None:
    if not value.is_unread():
        replay_list(writer, value)
        return
    writer.load(value)
    # Nobody has looked at what the list held before, so nothing of it is guarded: it is only made longer.
    writer.emit.build_list(writer.load_all(value.added))
    writer.emit.list_extend()
    writer.emit.pop()


@replays(ListValue)
def replay_list(writer: Writer, value: ListValue) -> None:
    emit = writer.emit
    if value.whole is not None:
        # Contents of an instance of a subclass: the object is what the program knows.
        fill_contents(writer, value.whole, value)
        emit.pop()
        return
    emit.build_list(writer.load_all(value.items))
    if value.cls is list:
        writer.load(value)
        # `value[:] = items`: the list stays the object that it is, whoever else holds it.
        emit.load_const(slice(None))
        emit.store_subscr()
    else:
        # Assignment to slices is for lists alone. Iterators over a deque look whether items have moved.
        _refill(writer, value, refill_sequence, value.moves > 0)


@replays(DictValue)
def replay_dict(writer: Writer, value: DictValue) -> None:
    if value.whole is not None:
        fill_contents(writer, value.whole, value)
        writer.emit.pop()
        return
    # None: assignments, one by one, do not bring about the order that the keys have now.
    if (changes := value.entries_changed()) is None:
        writer.emit.build_map(writer.load_all(value.pairs()) // 2)
        _refill(writer, value, refill_mapping)
    else:
        _write_entries(writer, value, *changes)
    write_attributes_of_dict(writer, value)


def _write_entries(writer: Writer, value: DictValue, gone: list[Value], written: list[tuple[Value, Value]]) -> None:
    """Takes out the keys that are gone, and assigns the entries that differ."""
    emit = writer.emit
    for key in gone:
        writer.load(value)
        writer.load(key)
        emit.delete_subscr()
    for key, item in written:
        writer.load(item)
        writer.load(value)
        writer.load(key)
        emit.store_subscr()


@replays(SetValue)
def replay_set(writer: Writer, value: SetValue) -> None:
    # The items in a list and not in a set: which of equal ones stays is decided by who fills the set.
    writer.emit.build_list(writer.load_all(value.parts()))
    _refill(writer, value, refill_sequence)


def _refill(writer: Writer, value: Value, how: Callable[..., object], *options: bool) -> None:
    """Makes what is on top of the stack all that the container holds."""
    emit, contents = writer.emit, writer.fresh("contents")
    emit.store_fast(contents)
    # Emptying and filling is one step: between the two nobody may see the container, no handler of a signal either.
    emit.load_uninterrupted(how)
    writer.load(value)
    emit.load_const(value.python_type())
    emit.load_fast(contents)
    for option in options:
        emit.load_const(option)
    emit.call_uninterrupted(3 + len(options))
    emit.pop()


@replays(ContextVarValue)
def replay_context_var(writer: Writer, value: ContextVarValue) -> None:
    # By tokens, in the order of the program: each may be what somebody resets to.
    set_pending(writer, value)


@replays(TensorValue)
def replay_attributes_of_tensor(writer: Writer, value: TensorValue) -> None:
    for name, item in value.written.items():
        writer.load(item)
        writer.load(value)
        writer.emit.store_attr(name)


@replays(CellValue)
def replay_cell(writer: Writer, value: CellValue) -> None:
    emit = writer.emit
    if value.content is UNBOUND:
        writer.load(value)
        # A cell of a deleted variable is empty, which is no value that could be stored.
        emit.delete_attr("cell_contents")
        return
    writer.load(value.content)
    writer.load(value)
    emit.store_attr("cell_contents")


@replays(ClassValue)
def replay_class(writer: Writer, value: ClassValue) -> None:
    """Assigns members past the metaclass's own ``__setattr__``: what that does was evaluated already."""
    for name, item in value.written.items():
        if item is not None:
            writer.call_uninterrupted(type.__setattr__, value, ConstantValue(name), item)
            writer.emit.pop()
        elif name in vars(value.cls):
            writer.call_uninterrupted(type.__delattr__, value, ConstantValue(name))
            writer.emit.pop()


@replays(NamespaceValue)
def replay_namespace(writer: Writer, value: NamespaceValue) -> None:
    emit = writer.emit
    for name, item in value.written.items():
        if item is None:
            # Not `del`, which raises where the name is missing.
            emit.load_uninterrupted(dict.pop)
            writer.load(value)
            emit.load_const(name)
            emit.load_const(None)  # what was set and deleted again may not have been there before
            emit.call_uninterrupted(3)
            emit.pop()
        else:
            writer.load(item)
            writer.load(value)
            emit.load_const(name)
            emit.store_subscr()
