"""Membership: ``in``, by kinds of containers."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from capture.evaluator.builtin_rules.equality import values_equal
from capture.evaluator.builtin_rules.registry import fold, rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize
from capture.values.constant import ConstantValue, boolean, differs_from_itself
from capture.values.iterating import iterate
from capture.values.mapping import DictValue, DictView, key_of
from capture.values.sequence import SequenceValue, TupleValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject


@rule(operator.contains, kinds=(DictValue, None))
def key_in_dict(ctx: Tracer, container: DictValue, item: Value) -> Value:
    return boolean(key_of(ctx, item) in container.entries)


@rule(operator.contains, kinds=(DictView, None))
def item_in_view(ctx: World, container: DictView, item: Value) -> Value:
    if container.which == "keys":
        return key_in_dict(ctx, container.owner, item)
    if container.which == "items":
        return _is_entry(ctx, container.owner, item)
    return _among(ctx, container.elements(ctx), item)


def _is_entry(ctx: Tracer, owner: DictValue, item: Value) -> Value:
    """True if a pair is an entry of the dict."""
    item = realize(ctx, item)
    if not isinstance(item, TupleValue) or len(item.items) != 2:  # of any class of tuples, as C has it
        return boolean(False)
    key, value = item.items
    entry = owner.entries.get(key_of(ctx, key))
    return boolean(entry is not None and values_equal(ctx, entry[1], value))


@rule(operator.contains, kinds=(SequenceValue, None))
def item_in_sequence(ctx: Tracer, container: SequenceValue, item: Value) -> Value:
    return _among(ctx, container.items, item)


def _among(ctx: Tracer, items: Sequence[Value], item: Value) -> Value:
    """True if an item of the container equals what is looked for, asked in this order, up to the first."""
    return boolean(any(values_equal(ctx, other, item) for other in items))


@rule(operator.contains, kinds=(ConstantValue, ConstantValue))
def constant_in_constant(ctx: Tracer, container: ConstantValue, item: ConstantValue) -> Value:
    if isinstance(container.value, frozenset) and differs_from_itself(item.value):
        return _among(ctx, container.elements(ctx), item)
    folded = fold(ctx, operator.contains, [container, item], {})
    assert folded is not None
    return folded


@rule(operator.contains, kinds=(TensorValue, None))
def item_in_tensor(ctx: Tracer, container: TensorValue, item: Value) -> Value:
    return ctx.record("__contains__", [container, item], {}, method=True)


@rule(operator.contains, kinds=(UserObject, None))
def item_in_object(ctx: Tracer, container: UserObject, item: Value) -> Value:
    """``in`` of an object: its ``__contains__``, or a walk through its items."""
    method = container.special(ctx, "__contains__")
    if method is not None:
        return boolean(ctx.call(method, [item]).truth(ctx))
    if not (hasattr(container.cls, "__iter__") or hasattr(container.cls, "__getitem__")):
        ctx.stop(Kind.BUILTIN, f"{item.describe()} is looked for in {container.describe()}, which contains nothing")
    iterator = iterate(ctx, container)
    while (other := iterator.step(ctx)) is not None:  # no further than to the first
        if values_equal(ctx, other, item):
            return boolean(True)
    return boolean(False)
