"""Operators on lists of tensors: the lowering of the single operator, applied to each.

An optimizer step becomes one nest per parameter, which the scheduler treats as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inductor.lowerings.context import Context
from inductor.lowerings.reductions import vector_norm
from inductor.lowerings.registry import LOWERINGS, Declined, Lowering, OpOverload, lowering
from inductor.lowerings.values import Tensor
from inductor.torch_versions import aten


def each(single: Lowering, ctx: Context, *args: Any, **kwargs: Any) -> list[Any] | Declined:
    """Applies a lowering to the first elements of all lists, the second ones, and so on."""
    lists = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, list | tuple)]
    results = []
    for number in range(len(lists[0])):
        row = [arg[number] if isinstance(arg, list | tuple) else arg for arg in args]
        named = {name: arg[number] if isinstance(arg, list | tuple) else arg for name, arg in kwargs.items()}
        result = single(ctx, *row, **named)
        if isinstance(result, Declined):
            return result
        results.append(result)
    return results


def _register(overload: OpOverload, single: OpOverload) -> None:
    def lower(ctx: Context, *args: object, **kwargs: object) -> list[Any] | Declined:
        return each(LOWERINGS[single], ctx, *args, **kwargs)

    lowering(overload)(lower)


_UNARY: Sequence[str] = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)  # fmt: skip
for _name in _UNARY:
    _register(getattr(aten, f"_foreach_{_name}").default, getattr(aten, _name).default)

for _name in ("add", "sub", "mul", "div"):
    for _kind in ("List", "Scalar", "ScalarList", "Tensor"):
        if _kind in getattr(aten, f"_foreach_{_name}").overloads():
            _register(getattr(getattr(aten, f"_foreach_{_name}"), _kind), getattr(aten, _name).Tensor)

for _name, _single in (
    ("maximum", aten.maximum.default),
    ("minimum", aten.minimum.default),
    ("clamp_min", aten.clamp_min.default),
    ("clamp_max", aten.clamp_max.default),
):
    for _kind in ("List", "Scalar", "ScalarList"):
        _register(getattr(getattr(aten, f"_foreach_{_name}"), _kind), _single)

for _kind in ("List", "Scalar", "ScalarList"):
    _register(getattr(aten._foreach_pow, _kind), aten.pow.Tensor_Tensor if _kind == "List" else aten.pow.Tensor_Scalar)

for _overload, _single in (
    (aten._foreach_lerp.List, aten.lerp.Tensor),
    (aten._foreach_lerp.Scalar, aten.lerp.Scalar),
    (aten._foreach_lerp.ScalarList, aten.lerp.Scalar),
    (aten._foreach_pow.ScalarAndTensor, aten.pow.Scalar),
    (aten._foreach_copy.default, aten.copy.default),
    (aten._foreach_zero.default, aten.zeros_like.default),
    (aten._foreach_max.default, aten.max.default),
):
    _register(_overload, _single)

if aten._foreach_clone:  # what torch lacks is false: torch 2.11 has none
    _register(aten._foreach_clone.default, aten.clone.default)


@lowering(aten._foreach_norm.Scalar)
def foreach_norm(ctx: Context, x: Sequence[Tensor], ord: float = 2, dtype: object = None) -> list[Any] | Declined:
    return each(lambda ctx, tensor: vector_norm(ctx, tensor, ord, None, False, dtype), ctx, x)


@lowering(aten._foreach_addcmul.Scalar, aten._foreach_addcmul.ScalarList)
def foreach_addcmul(
    ctx: Context, x: Sequence[Tensor], a: Sequence[Tensor], b: Sequence[Tensor], value: object = 1
) -> list[Any] | Declined:
    return each(_with_value(aten.addcmul.default), ctx, x, a, b, value)


@lowering(aten._foreach_addcdiv.Scalar, aten._foreach_addcdiv.ScalarList)
def foreach_addcdiv(
    ctx: Context, x: Sequence[Tensor], a: Sequence[Tensor], b: Sequence[Tensor], value: object = 1
) -> list[Any] | Declined:
    return each(_with_value(aten.addcdiv.default), ctx, x, a, b, value)


def _with_value(single: OpOverload) -> Lowering:
    return lambda ctx, x, a, b, value: LOWERINGS[single](ctx, x, a, b, value=value)
