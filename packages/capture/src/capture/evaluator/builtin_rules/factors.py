"""Data-dependent numbers, where an operation of torch's takes no tensor for a number.

A learning rate that a scheduler changes, or a step that was read out of a tensor, is a factor in an optimizer's
operations: the ``alpha`` of an addition, the ``value`` of ``addcdiv_``, what a list of tensors is divided by.  In the
graph it is a tensor without dimensions.  Eager multiplies, adds and rounds once; so the operand is multiplied first, in
single precision at least.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.builtin_rules.scalars import tensor_form
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.torch_versions import foreach_copy_, foreach_mul
from capture.values.base import Tracer, Value, realize
from capture.values.constant import ConstantValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, SequenceValue
from capture.values.tensor import TensorValue

_FACTORS = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_SHORT = (torch.float16, torch.bfloat16)
_DOUBLE = ConstantValue(torch.float64)
_CPU = torch.device("cpu")


def data_dependent_numbers(
    ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """The family of operations on data-dependent numbers; declines where they take tensors for them."""
    name = str(getattr(function, "__name__", ""))
    operation = name.removeprefix("_foreach_").removesuffix("_")
    if name.startswith("_fused_"):
        return _fused(ctx, function, args, kwargs)
    if operation in _FACTORS and (found := _with_a_factor(ctx, function, args, kwargs, _FACTORS[operation])):
        return found
    if name == "_foreach_pow" and _is_dynamic(args[0]):
        bases = ListValue(_as_tensors(ctx, args[:1], _parts(ctx, args[1]), exact=True))
        return ctx.record(function, [bases, args[1]], {})
    if operation == "lerp" and len(args) == 3:
        return _with_tensors(ctx, function, args, exact=True)
    if name.startswith("_foreach_") and len(args) == 2 and not kwargs:
        return _with_tensors(ctx, function, args, exact=False)
    return None


def _fused(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """A fused step of an optimizer, which takes a tensor for the learning rate and for no other number."""
    rate = kwargs.get("lr")
    if not isinstance(rate, ScalarValue):
        return None
    return ctx.call_builtin(function, args, {**kwargs, "lr": tensor_form(ctx, rate)})


def _with_a_factor(
    ctx: World, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value], keyword: str
) -> Value | None:
    """``target += factor * operand``, with one factor or one for each tensor of a list."""
    operands, options = list(args), dict(kwargs)
    factor = operands.pop(3) if len(operands) == 4 else options.pop(keyword, None)
    if factor is None or len(operands) < 2 or not any(_is_dynamic(part) for part in _parts(ctx, factor)):
        return None
    many = isinstance(operands[1], SequenceValue)
    targets, added = _parts(ctx, operands[0]), _parts(ctx, operands[1])
    if len(targets) != len(added) or not all(isinstance(part, TensorValue) for part in added):
        return None
    kinds = _types_of_results(ctx, function.__name__, operands, _parts(ctx, factor))
    multiplied = [_as_precise(ctx, *pair) for pair in zip(added, targets, strict=True)]
    factors = _as_tensors(ctx, _parts(ctx, factor), multiplied, exact=False)
    if many:
        operands[1] = ctx.record(foreach_mul, [ListValue(multiplied), ListValue(factors)], {})
    else:
        operands[1] = ctx.record(torch.mul, [multiplied[0], factors[0]], {})
    result = ctx.call_builtin(function, operands, options)
    if not kinds or options:  # it is written to what has a type
        return result
    parts = [
        part if part.fake.dtype is kind else ctx.record("to", [part, ConstantValue(kind)], {}, method=True)
        for part, kind in zip(_parts(ctx, result), kinds, strict=True)
        if isinstance(part, TensorValue)
    ]
    return type(result)(parts) if isinstance(result, SequenceValue) else parts[0]


def _types_of_results(
    ctx: Tracer, name: str, operands: Sequence[Value], factors: Sequence[Value]
) -> Sequence[torch.dtype]:
    """The dtypes of eager's results, in which no factor has a say; nothing where a tensor is written to."""
    columns = [_parts(ctx, operand) for operand in operands]
    rows = [[part.fake for part in row if isinstance(part, TensorValue)] for row in zip(*columns, strict=False)]
    whole = not all(fake.dtype.is_floating_point or fake.dtype.is_complex for row in rows for fake in row)
    if whole and not all(isinstance(factor, ScalarValue) and factor.python_type() is int for factor in factors):
        ctx.stop(Kind.TENSOR_VALUE, f"`{name}` of tensors of integers is given a data-dependent factor")
    compute = getattr(torch, name.removeprefix("_foreach_").removesuffix("_"))
    return () if name.endswith("_") else [compute(*map(_of_one_element, row)).dtype for row in rows]


def _of_one_element(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same type and rank, with which the types of results are computed."""
    return torch.empty((1,) * tensor.dim(), dtype=tensor.dtype, device="meta")


def _with_tensors(ctx: World, function: object, args: Sequence[Value], *, exact: bool) -> Value | None:
    """The last operand is one number for all tensors or one for each; ``exact``: of the tensors' own dtype."""
    targets, numbers = _parts(ctx, args[0]), _parts(ctx, args[-1])
    if not targets or not _needs_help(targets[0], numbers, exact, isinstance(args[0], SequenceValue)):
        return None
    if any(isinstance(target, TensorValue) and target.fake.dtype in _SHORT for target in targets):
        return _rounded_once(ctx, function, args)
    forms = _as_tensors(ctx, numbers, targets, exact=exact)
    if exact:
        kind = ConstantValue(targets[0].fake.dtype)  # type: ignore[attr-defined]
        forms = [ctx.record("to", [form, kind], {}, method=True) for form in dict.fromkeys(forms)]
        forms = forms * (len(targets) // len(forms))
    last = ListValue(forms) if isinstance(args[0], SequenceValue) else forms[0]
    return ctx.record(function, [*args[:-1], last], {})


def _needs_help(target: Value, numbers: Sequence[Value], exact: bool, many: bool) -> bool:
    """True if torch would not take the numbers as they are."""
    if not isinstance(target, TensorValue):
        return False
    tensors = [number for number in numbers if isinstance(number, TensorValue) and number.fake.dim() == 0]
    near = (target.fake.device,) if exact else (target.fake.device, _CPU)
    elsewhere = any(tensor.fake.device not in near for tensor in tensors)
    mixed = 0 < len(tensors) < len(numbers) or (exact and many and len(tensors) == 1)
    return elsewhere or mixed or any(isinstance(number, ScalarValue) for number in numbers)


def _rounded_once(ctx: Tracer, function: Any, args: Sequence[Value]) -> Value:
    """Computes in single precision, and rounds once, back into the tensors of half precision."""
    name, many = function.__name__, isinstance(args[0], SequenceValue)
    if not name.endswith("_"):
        ctx.stop(Kind.TENSOR_VALUE, f"`{name}` of tensors in half precision is given a data-dependent number")
    singles = [
        ListValue([_in_single_precision(ctx, part) for part in _parts(ctx, arg)])
        if isinstance(arg, SequenceValue)
        else _in_single_precision(ctx, arg)
        for arg in args
    ]
    computed = ctx.call_builtin(getattr(torch, name.removesuffix("_")), singles, {})
    if many:
        return ctx.record(foreach_copy_, [args[0], computed], {})
    return ctx.record("copy_", [args[0], computed], {}, method=True)


@rule(operator.pow, kinds=(ScalarValue, TensorValue))
def power(ctx: World, base: ScalarValue, exponent: TensorValue) -> Value:
    """A number to the power of another one that is a tensor of the graph already."""
    if exponent.fake.dim() or exponent.fake.dtype is not torch.float64:
        ctx.stop(Kind.TENSOR_VALUE, f"{base.describe()} is raised to {exponent.describe()}", "keep it a tensor")
    return ctx.record(operator.pow, [tensor_form(ctx, base), exponent], {})


# -- numbers and tensors -----------------------------------------------------------------------------------------


def _parts(ctx: Tracer, value: Value) -> list[Value]:
    """The items of a list or tuple, or the value alone."""
    return [realize(ctx, item) for item in value.elements(ctx)] if isinstance(value, SequenceValue) else [value]


def _is_dynamic(number: Value) -> bool:
    return isinstance(number, ScalarValue) or (isinstance(number, TensorValue) and number.fake.dim() == 0)


def _as_precise(ctx: Tracer, operand: Value, target: Value) -> Value:
    """The operand in the precision in which it is added to the target, single precision at least."""
    if isinstance(operand, TensorValue) and isinstance(target, TensorValue):
        kind = torch.result_type(_of_one_element(target.fake), _of_one_element(operand.fake))
        if kind in (torch.float64, torch.complex128) and operand.fake.dtype is not kind:
            return ctx.record("to", [operand, ConstantValue(kind)], {}, method=True)
    return _in_single_precision(ctx, operand)


def _in_single_precision(ctx: Tracer, operand: Value) -> Value:
    if isinstance(operand, TensorValue) and operand.fake.dtype in _SHORT:
        return ctx.record("float", [operand], {}, method=True)
    return operand


def _as_tensors(ctx: World, numbers: Sequence[Value], like: Sequence[Value], *, exact: bool) -> list[Value]:
    """One tensor without dimensions for each of the tensors in ``like``.

    Torch takes those of the CPU for a factor of any tensor; where it wants ``exact`` ones they are where those are,
    and all numbers move at once.
    """
    forms = [_form(ctx, number) for number in numbers]
    tensor = like[0]
    assert isinstance(tensor, TensorValue)
    if exact and any(form.fake.device != tensor.fake.device for form in forms):
        place = [ConstantValue(tensor.fake.device), ConstantValue(tensor.fake.dtype)]
        together = ctx.record(torch.stack, [ListValue(forms)], {})
        forms = ctx.record("to", [together, *place], {}, method=True).elements(ctx)  # type: ignore[assignment]
    return [*forms] * (len(like) // len(forms))


def _form(ctx: World, number: Value) -> TensorValue:
    """A number as a tensor without dimensions."""
    form = tensor_form(ctx, number) if isinstance(number, ScalarValue) else number
    if not isinstance(form, TensorValue):
        form = ctx.record(torch.full, [ctx.literal(()), form], {"dtype": _DOUBLE})
    assert isinstance(form, TensorValue)
    return form
