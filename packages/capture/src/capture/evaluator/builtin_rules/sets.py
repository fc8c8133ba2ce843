"""Sets and what is like them: frozensets, the keys and items of dicts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from capture.evaluator.builtin_rules.equality import keys_like_a_set
from capture.evaluator.builtin_rules.registry import constant_of, rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import NotConstant, Tracer, Value, realize
from capture.values.constant import NONE, ConstantValue, boolean
from capture.values.iterating import iterate
from capture.values.mapping import DictView, ObjectKey, key_of
from capture.values.sequence import SetValue
from capture.values.set_orders import Order, rely_on_order

_Keys = dict[Any, Value]
_LIKE_SETS = (SetValue, DictView, ConstantValue)
# At least one operand of a kind that cannot be folded.
# So two constants do not come here: a frozenset of constants is a constant itself, and is computed with.
_PAIRS = ((SetValue, _LIKE_SETS), (DictView, _LIKE_SETS), (ConstantValue, (SetValue, DictView)))


def _union(left: _Keys, right: _Keys) -> _Keys:
    # Of equal items the left one stays, as in C.
    return {**left, **_difference(right, left)}


def _intersection(left: _Keys, right: _Keys) -> _Keys:
    """The items in both; of equal items, those of the smaller set, as in C."""
    fewer, more = (left, right) if len(left) < len(right) else (right, left)
    return {key: item for key, item in fewer.items() if key in more}


def _difference(left: _Keys, right: _Keys) -> _Keys:
    return {key: item for key, item in left.items() if key not in right}


def _symmetric_difference(left: _Keys, right: _Keys) -> _Keys:
    return {**_difference(left, right), **_difference(right, left)}


def orders_of(*values: Value) -> tuple[Order, ...]:
    """The orders from which follows the one of a set that is made of these."""
    found: dict[Order, None] = {}
    for value in values:
        if isinstance(value, SetValue):
            found.update(dict.fromkeys(value.orders))
        elif isinstance(value, ConstantValue) and type(value.value) is frozenset and value.source is not None:
            found[value.source, tuple(value.value)] = None
    return tuple(found)


def _both(ctx: Tracer, function: Any, left: Value, right: Value) -> tuple[_Keys, _Keys]:
    """The items of two operands; breaks the graph where one is not like a set."""
    first, second = keys_like_a_set(ctx, left), keys_like_a_set(ctx, right)
    # CPython raises, or asks methods of the other operand.
    if first is None or second is None:
        ctx.stop(Kind.BUILTIN, f"`{function.__name__}` of {left.describe()} and {right.describe()}")
    return first, second


def _set_operator(function: object, in_place: object, combine: Callable[[_Keys, _Keys], _Keys]) -> None:
    """Registers the rules for an operator of sets and its form in place."""

    def apply(ctx: Tracer, left: Value, right: Value) -> Value:
        # The left operand says which kind it is, so `frozenset | set` is a frozenset; the keys of a dict give a set.
        cls = frozenset if left.python_type() is frozenset else set
        entries = combine(*_both(ctx, function, left, right))
        return SetValue(entries.items(), cls=cls, orders=orders_of(left, right))

    def change(ctx: Tracer, left: SetValue, right: Value) -> Value:
        """The operator in place."""
        # A frozenset has no `|=`: the name is bound to a new one.
        if left.cls is not set:
            return apply(ctx, left, right)
        # Ahead of ``changed``: where the other operand breaks the graph, nothing has happened to this one.
        combined = combine(*_both(ctx, function, left, right))
        ctx.changed(left)
        left.entries, left.orders = combined, orders_of(left, right)
        return left

    for kinds in _PAIRS:
        rule(function, kinds=kinds)(apply)
    rule(in_place, kinds=(SetValue, _LIKE_SETS))(change)


_set_operator(operator.or_, operator.ior, _union)
_set_operator(operator.and_, operator.iand, _intersection)
_set_operator(operator.sub, operator.isub, _difference)
_set_operator(operator.xor, operator.ixor, _symmetric_difference)


def _set_comparison(function: Any) -> None:
    def compare(ctx: Tracer, left: Value, right: Value) -> Value:
        first, second = _both(ctx, function, left, right)
        return boolean(function(first.keys(), second.keys()))

    for kinds in _PAIRS:
        rule(function, kinds=kinds)(compare)


for _comparison in (operator.lt, operator.le, operator.gt, operator.ge):
    _set_comparison(_comparison)


# -- methods -----------------------------------------------------------------------------------------------------


@rule(set.add, kinds=(SetValue, None))
def add(ctx: Tracer, items: SetValue, item: Value) -> Value:
    hashed = key_of(ctx, item)
    ctx.changed(items)
    # An equal item that is there already stays the object that it was.
    items.entries.setdefault(hashed, item)
    return NONE


@rule(set.update, kinds=(SetValue,))
def update_set(ctx: World, items: SetValue, *others: Value) -> Value:
    for other in others:
        if (known := keys_like_a_set(ctx, other := realize(ctx, other))) is not None:  # without a look at its order
            ctx.changed(items)
            items.entries, items.orders = _union(items.entries, known), orders_of(items, other)
            continue
        # Step by step: what a generator does between its items is done between the additions.
        iterator = iterate(ctx, other)
        while (item := iterator.step(ctx)) is not None:
            add(ctx, items, item)
    return NONE


def searched_key(ctx: Tracer, item: Value) -> object:
    """The key that an item has in a set; a set is found as the frozenset that it equals."""
    item = realize(ctx, item)
    if not isinstance(item, SetValue) or item.cls is not set:
        return key_of(ctx, item)
    # The frozenset would have to hold them, and hash as Python's does.
    if any(isinstance(key, ObjectKey) for key in item.entries):
        ctx.stop(Kind.HASH, f"{item.describe()} is looked for in a set of sets")
    return frozenset(item.entries)


@rule(operator.contains, kinds=(SetValue, None))
def item_in_set(ctx: Tracer, container: SetValue, item: Value) -> Value:
    return boolean(searched_key(ctx, item) in container.entries)


@rule(operator.contains, kinds=(ConstantValue, SetValue))
def set_in_constant(ctx: Tracer, container: ConstantValue, item: SetValue) -> Value:
    if type(container.value) is not frozenset:
        ctx.stop(Kind.BUILTIN, f"{item.describe()} is looked for in {container.describe()}")
    return boolean(searched_key(ctx, item) in container.value)


@rule(set.discard, kinds=(SetValue, None))
def discard(ctx: Tracer, items: SetValue, item: Value) -> Value:
    hashed = searched_key(ctx, item)
    ctx.changed(items)
    items.entries.pop(hashed, None)
    return NONE


@rule(set.remove, kinds=(SetValue, None))
def remove_from_set(ctx: World, items: SetValue, item: Value) -> Value:
    if searched_key(ctx, item) not in items.entries:
        ctx.throw(KeyError, item)
    return discard(ctx, items, item)


@rule(set.copy, kinds=(SetValue,))
def copy_set(ctx: Tracer, items: SetValue) -> Value:
    return SetValue(items.entries.items(), orders=items.orders)


@rule(set)
def make_set(ctx: World, iterable: Value | None = None) -> Value:
    made = SetValue({})
    if iterable is not None:
        update_set(ctx, made, iterable)
    return made


@rule(set.union, kinds=(SetValue,))
def set_union(ctx: World, items: SetValue, *others: Value) -> Value:
    made = SetValue(items.entries.items(), orders=items.orders)
    update_set(ctx, made, *others)
    return made


@rule(frozenset)
def make_frozenset(ctx: Tracer, iterable: Value | None = None) -> Value:
    if isinstance(iterable, ConstantValue) and type(iterable.value) is frozenset:
        return iterable
    known = None if iterable is None else keys_like_a_set(ctx, iterable := realize(ctx, iterable))
    items = [*known.values()] if known is not None else _items_of(ctx, iterable)
    for order in () if iterable is None else orders_of(iterable):
        rely_on_order(ctx, order)
    try:
        # One constant, where it can be one: it hashes, is a key and is folded like any other.
        return ConstantValue(frozenset(constant_of(ctx, item) for item in items))
    except NotConstant:
        return SetValue(((key_of(ctx, item), item) for item in items), cls=frozenset)


def _items_of(ctx: Tracer, iterable: Value | None) -> list[Value]:
    return [] if iterable is None else iterate(ctx, iterable).rest(ctx)


def _keys_of(ctx: Tracer, iterable: Value) -> _Keys:
    # Methods take any iterable where operators insist on sets.
    iterable = realize(ctx, iterable)
    if isinstance(iterable, (SetValue, ConstantValue)) and (known := keys_like_a_set(ctx, iterable)) is not None:
        return known
    return {key_of(ctx, item): item for item in iterate(ctx, iterable).rest(ctx)}


@rule(set.issubset, kinds=(SetValue, None))
def is_subset(ctx: Tracer, items: SetValue, other: Value) -> Value:
    return boolean(items.entries.keys() <= _keys_of(ctx, other).keys())


@rule(set.issuperset, kinds=(SetValue, None))
def is_superset(ctx: Tracer, items: SetValue, other: Value) -> Value:
    return boolean(items.entries.keys() >= _keys_of(ctx, other).keys())


@rule(set.isdisjoint, kinds=(SetValue, None))
def is_disjoint(ctx: Tracer, items: SetValue, other: Value) -> Value:
    return boolean(items.entries.keys().isdisjoint(_keys_of(ctx, other).keys()))


@rule(set.clear, kinds=(SetValue,))
def clear_set(ctx: Tracer, items: SetValue) -> Value:
    ctx.changed(items)
    items.entries = {}
    return NONE


def _combining(combine: Callable[[_Keys, _Keys], _Keys]) -> tuple[Any, Any]:
    """The rules for a method of sets and for the one that updates."""

    def made(ctx: Tracer, items: SetValue, *others: Value) -> Value:
        entries = items.entries
        for other in others:
            entries = combine(entries, _keys_of(ctx, other))
        return SetValue(entries.items(), cls=items.cls, orders=orders_of(items, *others))

    def updated(ctx: Tracer, items: SetValue, *others: Value) -> Value:
        combined = made(ctx, items, *others)
        ctx.changed(items)
        items.entries, items.orders = combined.entries, combined.orders  # type: ignore[attr-defined]
        return NONE

    return made, updated


for _names, _combine in (
    ("intersection", _intersection),
    ("difference", _difference),
    ("symmetric_difference", _symmetric_difference),
):
    _made, _updated = _combining(_combine)
    rule(getattr(set, _names), kinds=(SetValue,))(_made)
    rule(getattr(set, f"{_names}_update"), kinds=(SetValue,))(_updated)
