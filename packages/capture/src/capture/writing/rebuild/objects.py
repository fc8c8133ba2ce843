"""Objects with attributes, and subclasses of the builtin containers."""

from __future__ import annotations

import contextvars
import types

from capture._engine import refill_mapping, refill_sequence
from capture.values.base import Value
from capture.values.classes import ClassValue
from capture.values.constant import ConstantValue
from capture.values.container_object import ContainerObject, storage_class
from capture.values.context_var import ContextVarValue, TokenValue
from capture.values.exception import ExceptionValue, made_in_c
from capture.values.exception_group import ExceptionGroupValue
from capture.values.instance_dict import InstanceDict
from capture.values.mapping import DictValue
from capture.values.module import ModuleValue
from capture.values.sequence import ListValue
from capture.values.slots import has_code_for, takes_assignments
from capture.values.user_object import UserObject, lookup
from capture.writing.writer import Writer, builds


@builds(UserObject, ModuleValue)
def build_object(writer: Writer, value: UserObject) -> None:
    emit = writer.emit
    # Never by calling the class: its ``__init__`` was evaluated, and would run a second time.
    emit.load_callable(object.__new__)
    writer.load(_class_value(value))
    emit.call(1)
    _fill_object(writer, value)


@builds(ExceptionValue, ExceptionGroupValue)
def build_exception(writer: Writer, value: ExceptionValue) -> None:
    emit = writer.emit
    emit.load_callable(made_in_c(value.cls, "__new__"))
    writer.load(_class_value(value))
    # A group keeps its members in C: given to ``__new__``, read-only after.
    args = [value.message, value.members] if isinstance(value, ExceptionGroupValue) else value.new_args
    emit.call(1 + writer.load_all(args))
    writer.keep(value, "object")
    # That of C, which sets `args` and whatever else the class keeps in C; one in Python was evaluated.
    writer.call_const(made_in_c(value.cls, "__init__"), value, *value.new_args)
    emit.pop()
    write_attributes(writer, value)
    writer.load(value)


@builds(ContainerObject)
def build_container_object(writer: Writer, value: ContainerObject) -> None:
    emit = writer.emit
    base = storage_class(value.cls)
    assert base is not None
    # Empty at first, and kept: contents and attributes may refer to the object itself.
    emit.load_callable(base.__new__)
    writer.load(_class_value(value))
    emit.call(1)
    writer.keep(value, "object")
    # An attribute of C's, not in its ``__dict__``.
    if isinstance(value.contents, DictValue) and value.contents.default_factory is not None:
        writer.load(value.contents.default_factory)
        writer.load(value)
        emit.store_attr("default_factory")
    fill_contents(writer, value, value.contents)
    emit.pop()
    write_attributes(writer, value)
    writer.load(value)


def fill_contents(writer: Writer, owner: Value, contents: Value) -> None:
    """Leaves the object on the stack, with what its contents are now."""
    emit = writer.emit
    is_mapping = isinstance(contents, DictValue)
    # Past the subclass's own methods: what they did was evaluated, and its results are the contents.
    emit.load_uninterrupted(refill_mapping if is_mapping else refill_sequence)
    writer.load(owner)
    # The builtin class whose storage it is: filled by that one's own methods.
    emit.load_const(storage_class(owner.python_type()))
    count = writer.load_all(contents.pairs() if isinstance(contents, DictValue) else contents.parts())
    if is_mapping:
        emit.build_map(count // 2)
    else:
        emit.build_list(count)
    moved = isinstance(contents, ListValue) and contents.moves > 0
    if moved:
        emit.load_const(moved)
    emit.call_uninterrupted(3 + moved)


@builds(InstanceDict)
def build_instance_dict(writer: Writer, value: InstanceDict) -> None:
    writer.load(value.owner)
    writer.emit.load_attr("__dict__")


@builds(TokenValue)
def build_token(writer: Writer, value: TokenValue) -> None:
    set_pending(writer, value.owner)
    writer.load(value)


def set_pending(writer: Writer, var: ContextVarValue) -> None:
    """Sets what the evaluated code has set, in its order, once."""
    for token in var.pending:
        # Both the effect and a token that outlives the frame ask for this; whoever comes first sets, once.
        if not writer.is_kept(token):
            writer.call_const(contextvars.ContextVar.set, var, token.value)
            writer.keep(token, "token")


def _class_value(value: UserObject) -> ClassValue:
    return ClassValue(value.cls, value.class_source)


def _fill_object(writer: Writer, value: UserObject) -> None:
    writer.keep(value, "object")
    write_attributes(writer, value)
    writer.load(value)


def write_attributes(writer: Writer, value: UserObject) -> None:
    """Writes attributes past the class's own ``__setattr__`` and ``__delattr__``, which were evaluated already."""
    emit = writer.emit
    for name, item in value.overlay.items():
        # Deleted, and perhaps written again: only so does the name come last in ``__dict__``.
        if name in value.deleted:
            _delete_attribute(writer, value, name)
        if item is None:
            continue
        if _is_computed(value.cls, name):  # it was written to the object's ``__dict__``
            writer.load(item)
            _load_dict(writer, value)
            emit.load_const(name)
            emit.store_subscr()
        # New objects are filled before anybody sees them: a handler of a signal must not meet one without its
        # attributes.
        elif value.source is None or has_code_for(value.cls, "__setattr__"):
            writer.call_uninterrupted(object.__setattr__, value, ConstantValue(name), item)
            emit.pop()
        else:
            writer.load(item)
            writer.load(value)
            emit.store_attr(name)


def _delete_attribute(writer: Writer, value: UserObject, name: str) -> None:
    if _is_computed(value.cls, name):  # as above: a property's deleter was not asked for
        _load_dict(writer, value)
        writer.emit.load_const(name)
        writer.emit.delete_subscr()
    elif has_code_for(value.cls, "__delattr__"):
        writer.call_uninterrupted(object.__delattr__, value, ConstantValue(name))
        writer.emit.pop()
    else:
        writer.load(value)
        writer.emit.delete_attr(name)


def _is_computed(cls: type, name: str) -> bool:
    """True if the class has code of its own for assigning this attribute."""
    _, member = lookup(cls, name)
    written_in_c = isinstance(member, (types.MemberDescriptorType, types.GetSetDescriptorType))
    return not written_in_c and takes_assignments(member)


def _load_dict(writer: Writer, value: UserObject) -> None:
    """Loads the ``__dict__`` of an object, past a ``__getattribute__`` of its class's own."""
    if has_code_for(value.cls, "__getattribute__"):
        writer.call_const(object.__getattribute__, value, ConstantValue("__dict__"))
    else:
        writer.load(value)
        writer.emit.load_attr("__dict__")
