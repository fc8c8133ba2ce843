"""Equality as containers compare: of sequences, mappings, sets and views, item by item, and what else ``==`` is.

Where an item is a tensor, a data-dependent number or an object, ``==`` is asked for as a program would.
"""

from __future__ import annotations

import operator
from collections import OrderedDict

from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize
from capture.values.classes import ClassValue, PythonModuleValue
from capture.values.constant import ConstantValue, boolean, differs_from_itself
from capture.values.function import BuiltinValue, CellValue, FunctionValue
from capture.values.iterator import IteratorValue
from capture.values.mapping import DictValue, DictView, key_of
from capture.values.own_methods import own_method
from capture.values.partial import PartialValue
from capture.values.sequence import ListValue, SequenceValue, SetValue, SliceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject


def equality(ctx: Tracer, function: object, left: Value, right: Value) -> Value:
    """``==`` or ``!=`` of containers."""
    return boolean(values_equal(ctx, left, right) == (function is operator.eq))


def values_equal(ctx: Tracer, left: Value, right: Value) -> bool:
    """``left is right or left == right``, as containers compare their items."""
    left, right = realize(ctx, left), realize(ctx, right)
    # NaN is equal only as the same object.
    if isinstance(left, ConstantValue) and differs_from_itself(left.value):
        return ctx.is_one_object(left, right)
    # Containers do not ask ``==`` of one and the same object.
    if left.identity() is right.identity():
        return True
    if isinstance(left, SequenceValue) and isinstance(right, SequenceValue):
        return _sequences_equal(ctx, left, right)
    if isinstance(left, DictValue) and isinstance(right, DictValue):
        return _dicts_equal(ctx, left, right)
    if isinstance(left, SliceValue) and isinstance(right, SliceValue):
        return _sequences_equal(ctx, _as_tuple(left), _as_tuple(right))
    # Views of keys and of items compare as sets, with sets, too.
    keys = keys_like_a_set(ctx, left), keys_like_a_set(ctx, right)
    if keys[0] is not None and keys[1] is not None:
        return keys[0].keys() == keys[1].keys()
    if any(isinstance(side, (TensorValue, SymbolicNumber, UserObject)) for side in (left, right)):
        return ctx.call_builtin(operator.eq, [left, right], {}).truth(ctx)
    # From here on the answer is computed with the real objects, so no code of the program may have a say.
    _insist_on_known_equality(ctx, left, right)
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        return bool(left.value == right.value)
    # What is left of these kinds has ``==`` of ``object``, or is of another type.
    if isinstance(left, _COMPARED_BY_KIND) and isinstance(right, _COMPARED_BY_KIND):
        return ctx.is_one_object(left, right)
    return ctx.stop(Kind.COMPARISON, f"{left.describe()} is compared with {right.describe()}")


def _insist_on_known_equality(ctx: Tracer, *sides: Value) -> None:
    """Breaks the graph where code of the program says what is equal."""
    for side in sides:
        if not isinstance(side, (ConstantValue, ClassValue, PythonModuleValue)):
            continue
        if (method := own_method(side.constant(), "__eq__", "__ne__")) is not None:
            ctx.stop(Kind.SPECIAL_METHOD, f"`{method}` of {side.describe()} is the program's own")


def _as_tuple(value: SliceValue) -> TupleValue:
    """Slices compare as tuples of their parts."""
    return TupleValue(value.parts())


# Values of two of these kinds are never equal where the code above did not say so.
_COMPARED_BY_KIND: tuple[type[Value], ...] = (
    ConstantValue, SequenceValue, DictValue, DictView, SetValue, SliceValue, IteratorValue,
    FunctionValue, BuiltinValue, ClassValue, CellValue, PythonModuleValue, PartialValue,
)  # fmt: skip


def keys_like_a_set(ctx: Tracer, value: Value) -> dict[object, Value] | None:
    """The items of a set, of a frozenset or of a view of keys, by their hashes; None for others."""
    if isinstance(value, SetValue):
        return value.entries
    if isinstance(value, DictView) and value.which == "keys":
        return {hashed: key for hashed, (key, _) in value.owner.entries.items()}
    if isinstance(value, DictView) and value.which == "items":
        pairs = [TupleValue(pair) for pair in value.owner.entries.values()]
        return {key_of(ctx, pair): pair for pair in pairs}
    if isinstance(value, ConstantValue) and isinstance(value.value, frozenset):
        return {item: ctx.literal(item) for item in value.value}
    return None


def _sequences_equal(ctx: Tracer, left: SequenceValue, right: SequenceValue) -> bool:
    kind, same_length = sequence_kind(left), len(left.items) == len(right.items)
    if kind is not sequence_kind(right) or (kind is not tuple and not same_length):
        return False
    # A tuple asks its items before it compares lengths.
    equal = all(values_equal(ctx, a, b) for a, b in zip(left.items, right.items, strict=False))
    return equal and same_length


def sequence_kind(value: SequenceValue) -> type:
    """Sequences compare with those of the same kind only."""
    return value.cls if isinstance(value, ListValue) else tuple


def _dicts_equal(ctx: Tracer, left: DictValue, right: DictValue) -> bool:
    if left.entries.keys() != right.entries.keys():
        return False
    # Two of them compare in order; one beside a dict does not.
    if left.cls is right.cls is OrderedDict and list(left.entries) != list(right.entries):
        return False
    return all(values_equal(ctx, value, right.entries[key][1]) for key, (_, value) in left.entries.items())
