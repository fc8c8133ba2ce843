"""Dynamic floats where torch wants numbers: in the graph they are tensors without dimensions.

Filling, choosing and limiting take those as well, and give the same to the bit, as the number is rounded to the
tensor's dtype either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional as nnf

from capture.evaluator.builtin_rules.scalars import tensor_form
from capture.evaluator.world import World
from capture.torch_versions import VariableFunctions, nn
from capture.values.base import Value
from capture.values.constant import ConstantValue
from capture.values.scalar import ScalarValue
from capture.values.tensor import TensorValue

Rule = Callable[[World, Any, Sequence[Value], Mapping[str, Value]], Value | None]
_RULES: dict[object, Rule] = {}
_MAKERS = {
    torch.full: torch.empty,
    torch.full_like: torch.empty_like,
    torch.Tensor.new_full: torch.Tensor.new_empty,
}


def dynamic_float(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family of torch's functions that are given a dynamic float; declines where there is none."""
    if not any(map(_is_float, (*args, *kwargs.values()))):
        return None
    try:
        rule = _RULES.get(function)
    except TypeError:  # it has no hash
        return None
    return None if rule is None else rule(ctx, function, args, kwargs)


def _is_float(value: Value) -> bool:
    return isinstance(value, ScalarValue) and value.cls is float


def _where_given(*functions: object) -> Callable[[Rule], Rule]:
    """Registers the rule for functions that are given a dynamic float."""

    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(functions, rule))
        return rule

    return register


def _like(ctx: World, tensor: TensorValue, number: Value) -> Value:
    """The number as a tensor of another one's dtype, on its device."""
    if not isinstance(number, (ScalarValue, ConstantValue)) or number.python_type() not in (int, float):
        return number
    form = tensor_form(ctx, number)
    if isinstance(form, ConstantValue):
        form = ctx.record(torch.full, [ctx.literal(()), form], {"dtype": ConstantValue(torch.float64)})
    place = [ConstantValue(tensor.fake.device), ConstantValue(tensor.fake.dtype)]
    return ctx.record("to", [form, *place], {}, method=True)


@_where_given(
    *(torch.where, torch.Tensor.where, torch.masked_fill, torch.Tensor.masked_fill, torch.Tensor.masked_fill_),
    *(torch.fill, torch.fill_, torch.Tensor.fill_),
    *(torch.clamp, torch.Tensor.clamp, torch.Tensor.clamp_, torch.clip, torch.Tensor.clip),
    *(torch.clamp_min, torch.Tensor.clamp_min, torch.clamp_max, torch.Tensor.clamp_max),
)
def _with_tensors(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The function with a tensor in the place of each number, for a tensor of floats.

    A tensor of whole numbers and a float may make something else.
    """
    tensors = [arg for arg in args if isinstance(arg, TensorValue) and arg.fake.is_floating_point()]
    if not tensors:
        return None
    operands = [_like(ctx, tensors[0], arg) for arg in args]
    options = {name: _like(ctx, tensors[0], value) for name, value in kwargs.items()}
    return ctx.call_builtin(function, operands, options)


@_where_given(torch.linspace, torch.logspace)
def _between(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """Grids whose ends are tensors, which torch's functions take as well."""
    ends = [tensor_form(ctx, arg) if _is_float(arg) else arg for arg in args[:2]]
    if any(map(_is_float, (*args[2:], *kwargs.values()))):
        return None
    return ctx.call_builtin(function, [*ends, *args[2:]], kwargs)


@_where_given(*_MAKERS)
def _filled(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """A tensor without contents, and then filled: only `fill_` takes a tensor for the number."""
    position = 1 if function is not torch.Tensor.new_full else 2
    if len(args) != position + 1:
        return None
    options = dict(kwargs)
    if function is torch.full and "dtype" not in options:
        options["dtype"] = ctx.call_builtin(torch.get_default_dtype, [], {})
    made = ctx.call_builtin(_MAKERS[function], args[:position], options)
    if not isinstance(made, TensorValue):
        return None
    return ctx.record("fill_", [made, _like(ctx, made, args[position])], {}, method=True)


@_where_given(torch.threshold, nnf.threshold, VariableFunctions.threshold)
def _above(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """``threshold`` as a choice between two tensors."""
    if len(args) != 3 or not isinstance(tensor := args[0], TensorValue) or not tensor.fake.is_floating_point():
        return None
    limit, value = (_like(ctx, tensor, number) for number in args[1:])
    return ctx.record(torch.where, [ctx.record(torch.le, [tensor, limit], {}), value, tensor], {})


@_where_given(nnf.leaky_relu, nn.leaky_relu)
def _leaking(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """``leaky_relu`` as a choice, for dtypes that torch computes it in."""
    if kwargs or len(args) != 2 or not isinstance(tensor := args[0], TensorValue):
        return None
    if tensor.fake.dtype not in (torch.float32, torch.float64):  # which others are computed in
        return None
    scaled = ctx.record(torch.mul, [tensor, _like(ctx, tensor, args[1])], {})
    zero = ConstantValue(0)
    return ctx.record(torch.where, [ctx.record(torch.gt, [tensor, zero], {}), tensor, scaled], {})
