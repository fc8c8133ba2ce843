"""Tensors made of dynamic numbers of Python's: ``torch.tensor(n)``, ``torch.tensor([n, 1.0])``.

Torch would take each for a constant.  A symbol fills a tensor without dimensions, and those are stacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from capture.evaluator.builtin_rules.numbers_that_fit import that_fits
from capture.evaluator.builtin_rules.registry import constant_of
from capture.evaluator.world import World
from capture.values.base import Tracer, Value, realize
from capture.values.constant import ConstantValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, SequenceValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue

_FROM_NUMBERS = (torch.tensor, torch.as_tensor)
_NAMES = {"data", "dtype", "device"}


def made_of_numbers(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """``torch.tensor`` and ``Tensor.new_tensor`` where a number among the data is a symbol."""
    like = args[0] if function is torch.Tensor.new_tensor and args else None
    if not any(function is known for known in _FROM_NUMBERS) and not isinstance(like, TensorValue):
        return None
    given = dict(zip(("data",) if like is None else ("self", "data"), args, strict=False)) | dict(kwargs)
    like = given.pop("self", None)
    numbers = list(_numbers(ctx, given["data"])) if given.keys() <= _NAMES and "data" in given else []
    if not any(map(_is_dynamic, numbers)) or not _all_plain(numbers):
        return None
    data = given.pop("data")
    options = {name: value for name, value in given.items() if value.python_type() is not type(None)}
    if isinstance(like, TensorValue):
        options = {"dtype": ConstantValue(like.fake.dtype), "device": ConstantValue(like.fake.device)} | options
    elif "dtype" not in options:
        options["dtype"] = _dtype_of(ctx, numbers)
    return _filled(ctx, data, options)


def _numbers(ctx: Tracer, data: Value) -> list[Value]:
    """The numbers in nested lists, in their order."""
    data = realize(ctx, data)
    if isinstance(data, SequenceValue):
        return [number for item in data.items for number in _numbers(ctx, item)]
    return [data]


def _all_plain(numbers: Sequence[Value]) -> bool:
    """True if all are dynamic, or plain numbers."""
    return all(
        _is_dynamic(number) or (isinstance(number, ConstantValue) and number.python_type() in (int, float, bool))
        for number in numbers
    )


def _is_dynamic(number: Value) -> bool:
    return isinstance(number, SymbolicNumber) or (isinstance(number, ScalarValue) and number.cls is float)


def _dtype_of(ctx: Tracer, numbers: Sequence[Value]) -> Value:
    """The dtype that torch gives such data."""
    if any(number.python_type() is float for number in numbers):
        return ctx.call_builtin(torch.get_default_dtype, [], {})
    return ConstantValue(torch.int64)


def _filled(ctx: World, data: Value, options: Mapping[str, Value]) -> Value:
    """The tensor of the data, stacked of tensors of one number each."""
    data = realize(ctx, data)
    if isinstance(data, SequenceValue):
        return ctx.record(torch.stack, [ListValue([_filled(ctx, item, options) for item in data.items])], {})
    fitting = that_fits(ctx, data, frozenset({constant_of(ctx, options["dtype"])}))
    if fitting is not data:
        return ctx.call_builtin(torch.tensor, [fitting], options)
    return ctx.call_builtin(torch.full, [ctx.literal(()), data], options)
