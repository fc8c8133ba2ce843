"""Items of sequences, mappings, constants and objects: read, assigned and deleted, by position, slice or key."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from capture.evaluator.builtin_rules.registry import fold, rule
from capture.reasons import Kind
from capture.values.base import Tracer, Value, held_by, realize, type_name
from capture.values.classes import is_made_by_code
from capture.values.constant import NONE, ConstantValue, is_none
from capture.values.mapping import DictValue
from capture.values.sequence import ListValue, SequenceValue, SliceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.user_object import UserObject


def _refuse_slices_of_deques(ctx: Tracer, items: SequenceValue) -> None:
    if items.cls is deque:
        ctx.throw(TypeError, "sequence index must be integer, not 'slice'")


@rule(operator.getitem, kinds=(SequenceValue, SliceValue))
def slice_sequence(ctx: Tracer, items: SequenceValue, index: SliceValue) -> Value:
    _refuse_slices_of_deques(ctx, items)
    # A whole slice of a tuple is the tuple itself.
    chosen = items.items[slice_of(ctx, index)]
    if items.cls is tuple and len(chosen) == len(items.items) and not isinstance(items, ListValue):
        return items if is_none(index.step) else TupleValue(chosen)
    if isinstance(items, ListValue):
        return ListValue(chosen)
    return TupleValue(chosen, cls=torch.Size if items.cls is torch.Size else tuple)


@rule(operator.getitem, kinds=(SequenceValue, None))
def index_sequence(ctx: Tracer, items: SequenceValue, index: Value) -> Value:
    # Python's words name the kind that the program's class is derived from.
    position = _position(ctx, items, index)
    if not -len(items.items) <= position < len(items.items):
        kind = next(cls for cls in (list, deque, tuple) if issubclass(items.python_type(), cls))
        ctx.throw(IndexError, f"{kind.__name__} index out of range")
    return items.item(ctx, position)


@rule(operator.setitem, kinds=(ListValue, SliceValue, None))
def assign_slice(ctx: Tracer, items: ListValue, index: SliceValue, value: Value) -> Value:
    _refuse_slices_of_deques(ctx, items)
    chosen = slice_of(ctx, index)
    # Made a list first, as in C: ``a[1:] = a`` reads all of it before anything moves.
    assigned = ctx.call_builtin(list, [value], {}).elements(ctx)
    ctx.changed(items)
    try:
        items.items[chosen] = assigned
    except ValueError as error:  # an extended slice of another length
        ctx.throw(ValueError, *error.args)
    return ConstantValue(None)


@rule(operator.setitem, kinds=(ListValue, None, None))
def assign_item(ctx: Tracer, items: ListValue, index: Value, value: Value) -> Value:
    position = _position(ctx, items, index)
    if not -len(items.items) <= position < len(items.items):
        _refuse_position(ctx, items)
    ctx.changed(items)
    items.items[position] = value
    return ConstantValue(None)


def _refuse_position(ctx: Tracer, items: ListValue) -> NoReturn:
    """Raises for a position that is written to and is none."""
    of_deque = issubclass(items.python_type(), deque)
    ctx.throw(IndexError, "deque index out of range" if of_deque else "list assignment index out of range")


@rule(operator.delitem, kinds=(ListValue, None))
def delete_item(ctx: Tracer, items: ListValue, index: Value) -> Value:
    if isinstance(index, SliceValue):
        _refuse_slices_of_deques(ctx, items)
    chosen: Any = slice_of(ctx, index) if isinstance(index, SliceValue) else _position(ctx, items, index)
    if isinstance(chosen, int) and not -len(items.items) <= chosen < len(items.items):
        _refuse_position(ctx, items)
    ctx.changed(items)
    # Deques' iterators notice.
    items.moves += 1
    del items.items[chosen]
    return ConstantValue(None)


def index_of(ctx: Tracer, value: Value) -> int:
    """``operator.index``."""
    value = realize(ctx, value)
    # Items are at numbers: a symbol becomes a constant of the version here.
    if isinstance(value, SymbolicNumber):
        return int(value.specialized())
    answer = ctx.call_builtin(operator.index, [value], {})
    position = answer.constant()
    assert isinstance(position, int)
    return position


def has_index(value: Value) -> bool:
    """True if it may be used as a position."""
    return isinstance(value, SymbolicNumber) or held_by(value.python_type(), "__index__") is not None


def _position(ctx: Tracer, items: SequenceValue, index: Value) -> int:
    """The index as a number, with Python's words for what is none."""
    if not has_index(index):
        name, kind = type_name(index.python_type()), "list" if issubclass(items.python_type(), list) else "tuple"
        if issubclass(items.python_type(), deque):
            ctx.throw(TypeError, f"sequence index must be integer, not '{name}'")
        ctx.throw(TypeError, f"{kind} indices must be integers or slices, not {name}")
    return index_of(ctx, index)


def slice_of(ctx: Tracer, value: SliceValue) -> slice:
    """The slice, of numbers that are relied on."""
    parts = [realize(ctx, part) for part in value.parts()]
    if isinstance(parts[2], ConstantValue) and parts[2].value == 0:
        ctx.throw(ValueError, "slice step cannot be zero")
    if not all(is_none(part) or has_index(part) for part in parts):
        ctx.throw(TypeError, "slice indices must be integers or None or have an __index__ method")
    return slice(*(None if is_none(part) else index_of(ctx, part) for part in parts))


@rule(operator.getitem, kinds=(DictValue, None))
def index_dict(ctx: Tracer, mapping: DictValue, key: Value) -> Value:
    found = mapping.get(ctx, key)
    if found is not None:
        return found
    # A subclass of ``dict`` may have a ``__missing__``; ``defaultdict`` has one in C, which is the factory below.
    if isinstance(mapping.whole, UserObject):
        missing = mapping.whole.special(ctx, "__missing__")
        if missing is not None:
            return ctx.call(missing, [key])
    if mapping.default_factory is not None and not is_none(mapping.default_factory):
        made = ctx.call(mapping.default_factory, [])
        # Stored before it is given: whoever asks again gets the same object.
        mapping.put(ctx, key, made)
        return made
    return ctx.throw(KeyError, key)


@rule(operator.setitem, kinds=(DictValue, None, None))
def assign_key(ctx: Tracer, mapping: DictValue, key: Value, value: Value) -> Value:
    mapping.put(ctx, key, value)
    return ConstantValue(None)


@rule(operator.delitem, kinds=(DictValue, None))
def delete_key(ctx: Tracer, mapping: DictValue, key: Value) -> Value:
    if mapping.remove(ctx, key) is None:
        ctx.throw(KeyError, key)
    return ConstantValue(None)


@rule(operator.getitem, kinds=(ConstantValue, SliceValue))
@rule(operator.getitem, kinds=(ConstantValue, ConstantValue))
def index_constant(ctx: Tracer, value: ConstantValue, index: Value) -> Value:
    folded = fold(ctx, operator.getitem, [value, index], {})
    if folded is None:
        assert isinstance(index, SliceValue)  # its bounds are objects with an `__index__`
        folded = fold(ctx, operator.getitem, [value, ConstantValue(slice_of(ctx, index))], {})
    assert folded is not None
    return folded


def _object_item(name: str) -> Callable[..., Value]:
    """The rule for items of an object: its own special method."""

    def through_method(ctx: Tracer, owner: UserObject, *operands: Value) -> Value:
        method = owner.special(ctx, name)
        if method is None:
            if not is_made_by_code(owner.cls):  # C has other words for what is a sequence of some kind
                ctx.stop(Kind.INDEX, f"{owner.describe()} is asked for its `{name}`")
            like = "deletion of positions" if name == "__delitem__" and has_index(operands[0]) else name
            ctx.throw(TypeError, f"'{type_name(owner.cls)}' object {_ITEM_ERRORS[like]}")
        said = ctx.call(method, operands)
        return said if name == "__getitem__" else NONE  # what a method says of an assignment nobody is told

    return through_method


_ITEM_ERRORS = {
    "__getitem__": "is not subscriptable",
    "__setitem__": "does not support item assignment",
    "__delitem__": "does not support item deletion",
    "deletion of positions": "doesn't support item deletion",
}
rule(operator.getitem, kinds=(UserObject, None))(_object_item("__getitem__"))
rule(operator.setitem, kinds=(UserObject, None, None))(_object_item("__setitem__"))
rule(operator.delitem, kinds=(UserObject, None))(_object_item("__delitem__"))
