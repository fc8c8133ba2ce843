"""Indexing of tensors, also by positions that vary from call to call: torch's own would take each for a constant.

A number in an index selects, whatever the rest of the index does; so the selection is made first, by an operator that
takes a symbol, and the rest of the index is applied to what it gives.
"""

from __future__ import annotations

import operator

import torch

from capture.evaluator.builtin_rules.numbers_that_fit import that_fits
from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.recording.graph import memory_of
from capture.values.base import Tracer, Value, realize
from capture.values.constant import NONE, ConstantValue, is_none
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, SliceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue

_REST = ConstantValue(...)
_ALL = SliceValue(NONE, NONE, NONE)
_MASKS = (torch.bool, torch.uint8)


@rule(operator.getitem, kinds=(TensorValue, None))
def index_tensor(ctx: Tracer, tensor: TensorValue, index: Value) -> Value:
    if isinstance(index, ScalarValue) and index.cls is int:  # torch's own indexing wants to know it at once
        return ctx.record("select", [tensor, ConstantValue(0), index], {}, method=True)
    selected, rest = _selected(ctx, tensor, index)
    return selected if rest is None else ctx.record(operator.getitem, [selected, rest], {})


@rule(operator.setitem, kinds=(TensorValue, None, None))
def assign_tensor(ctx: World, tensor: TensorValue, index: Value, value: Value) -> Value:
    if isinstance(index, TensorValue) and index.fake.dim() == 0 and index.fake.dtype is torch.int64:
        # As a number it would have to be read out of the tensor; a list of one position assigns the same.
        # It is copied, as a number is: autograd keeps a list of positions, and the program may count on.
        index = ctx.record("clone", [index], {}, method=True)
        index = ctx.record("reshape", [index, ConstantValue(1)], {}, method=True)
        if isinstance(value, TensorValue) and memory_of(value.fake) == memory_of(tensor.fake):
            value = ctx.record("clone", [value], {}, method=True)  # a list refuses what a number takes
        value = _as_items_of(ctx, tensor.fake, value)
    value = that_fits(ctx, value, frozenset({tensor.fake.dtype}))
    selected, rest = _selected(ctx, tensor, index)
    ctx.record(operator.setitem, [selected, _REST if rest is None else rest, value], {})
    return NONE


def _as_items_of(ctx: Tracer, target: torch.Tensor, value: Value) -> Value:
    """The value as a list of positions takes it: of the tensor's dtype and on its device, unlike for a number."""
    if not isinstance(value, TensorValue):
        return value
    if value.fake.device == target.device and value.fake.dtype is target.dtype:
        return value
    return ctx.record("to", [value, ConstantValue(target.device), ConstantValue(target.dtype)], {}, method=True)


def _selected(ctx: Tracer, tensor: TensorValue, index: Value) -> tuple[TensorValue, Value | None]:
    """The tensor at the positions that vary, and the index that is left, if any is.

    From left to right, as torch does it: which stride a new dimension has depends on what follows it then.
    """
    entries = [realize(ctx, entry) for entry in index.items] if isinstance(index, TupleValue) else [index]
    places = [place for place, entry in enumerate(entries) if isinstance(entry, SymbolicNumber)]
    sizes = [_dimensions(entry) for entry in entries]
    if not places or None in sizes:
        return tensor, index
    rest, dimension = [], 0
    for place, entry in enumerate(entries[: places[-1] + 1]):
        if isinstance(entry, SymbolicNumber):
            tensor = _applied(ctx, "select", tensor, dimension, entry)
            continue
        if isinstance(entry, ConstantValue) and entry.value is None:
            tensor = _applied(ctx, "unsqueeze", tensor, dimension)
        rest.append(_ALL if is_none(entry) else entry)
        # An ellipsis stands for all dimensions that the entries behind it leave over.
        following = sum(size or 0 for size in sizes[place + 1 :])
        dimension = tensor.fake.dim() - following if _is_ellipsis(entry) else dimension + (sizes[place] or 1)
    rest += entries[places[-1] + 1 :]
    return tensor, None if all(map(_is_all, rest)) else TupleValue(rest)


def _applied(ctx: Tracer, method: str, tensor: TensorValue, dimension: int, *args: Value) -> TensorValue:
    """The result of an operator on one dimension."""
    made = ctx.record(method, [tensor, ConstantValue(dimension), *args], {}, method=True)
    assert isinstance(made, TensorValue)
    return made


def _dimensions(entry: Value) -> int | None:
    """The number of the tensor's dimensions that an entry is about; None for what only torch can tell of."""
    if isinstance(entry, TensorValue):
        return entry.fake.dim() if entry.fake.dtype in _MASKS else 1
    if isinstance(entry, (SymbolicNumber, SliceValue)):
        return 1
    if isinstance(entry, ListValue):
        return 1 if all(item.python_type() is int for item in entry.items) else None
    if isinstance(entry, ConstantValue) and (entry.value is None or _is_ellipsis(entry)):
        return 0
    return 1 if isinstance(entry, ConstantValue) and type(entry.value) is int else None


def _is_ellipsis(entry: Value) -> bool:
    return isinstance(entry, ConstantValue) and entry.value is ...


def _is_all(entry: Value) -> bool:
    """True if an entry leaves its dimension as it is."""
    if isinstance(entry, SliceValue):
        return all(isinstance(part, ConstantValue) and part.value is None for part in entry.parts())
    return _is_ellipsis(entry)
