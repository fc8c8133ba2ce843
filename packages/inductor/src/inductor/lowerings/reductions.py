"""Reductions, and operators made of several of them: softmax, log-softmax and layer norm.

Each reads its input where it lies; what a reduction needs of another is left to the scheduler, which lays nests over
the same rows into one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor.ir.expr import Expr, cast
from inductor.ir.index import ONE, ZERO, Index
from inductor.ir.ops import POSITIONS
from inductor.lowerings import splitting
from inductor.lowerings.algebra import Value, absolute, call, differs, equal, exp, log, maximum, sqrt, where
from inductor.lowerings.context import Context
from inductor.lowerings.promotion import category
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.values import (
    Tensor,
    as_index_value,
    as_stored,
    broadcast_to,
    compute_dtype,
    convert,
    positions,
    pure,
    reindex,
)
from inductor.lowerings.views import reshape, wrap
from inductor.torch_versions import aten

Dims = Any


def dims_of(x: Tensor, dim: Dims) -> list[int]:
    """The dimensions to reduce; None and an empty list mean all."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return list(range(x.ndim))
    return [wrap(d, x.ndim) for d in (dim if isinstance(dim, list | tuple) else [dim])] if x.ndim else []


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype sums are kept in."""
    return compute_dtype(dtype) if dtype.is_floating_point else torch.int64


def reduce(
    ctx: Context, x: Tensor, kind: str, dims: Sequence[int], keepdim: bool, value: Value, dtype: torch.dtype,
    finish: Callable[[Value], Value] = lambda result: result,
) -> Tensor:  # fmt: skip
    """One reduction of ``value`` (over the axes of ``x``) whose result is stored as ``dtype``."""
    # What is accumulated: the value's dtype, but for positions.
    kept = torch.int64 if kind in POSITIONS else value.dtype
    return splitting.reduce(
        ctx, x, dims, [(kind, value.expr, kept)], lambda result: [(finish(Value(result)).expr, dtype)], keepdim
    )[0]


def count(x: Tensor, dims: Sequence[int], dtype: torch.dtype) -> Value:
    """The number of elements that are reduced, as a value of ``dtype``."""
    # An index, as sizes may be symbols.
    total = Index.of(1)
    for dim in dims:
        total = total * x.sizes[dim]
    return Value(as_index_value(total, torch.int64)).to(dtype)


# -- sums and products ------------------------------------------------------------------------------------------------


def _summed_dtype(x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype of a sum or product: torch adds up integers and bools in 64 bits."""
    return dtype or (torch.int64 if category(x.dtype) < 2 else x.dtype)


@lowering(aten.sum.default, aten.sum.dim_IntList)
def sum_(
    ctx: Context, x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor | Declined:
    result = _summed_dtype(x, dtype)
    if x.dtype.is_complex or result.is_complex:
        return Declined("complex numbers")
    # The sum of truths as a truth is whether any is true: there is no addition that says so.
    kept = accumulator(result) if result != torch.bool else torch.bool
    kind = "any" if kept == torch.bool else "sum"
    return reduce(ctx, x, kind, dims_of(x, dim), keepdim, Value(x.expr).to(kept), result)


@lowering(aten.prod.default, aten.prod.dim_int)
def prod(
    ctx: Context, x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor | Declined:
    result = _summed_dtype(x, dtype)
    if x.dtype.is_complex or result.is_complex or result == torch.bool:
        return Declined("complex numbers or bool")
    return reduce(ctx, x, "prod", dims_of(x, dim), keepdim, Value(x.expr).to(accumulator(result)), result)


@lowering(aten.mean.default, aten.mean.dim)
def mean(
    ctx: Context, x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor | Declined:
    result = dtype or x.dtype
    if not result.is_floating_point or x.dtype.is_complex:
        return Declined("a mean of numbers that are not real floats")
    dims = dims_of(x, dim)
    value = Value(x.expr).to(compute_dtype(result))
    return reduce(ctx, x, "sum", dims, keepdim, value, result, lambda total: total / count(x, dims, total.dtype))


@lowering(aten.any.default, aten.any.dim, aten.any.dims)
def any_(ctx: Context, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor | Declined:
    return _truth(ctx, x, "any", dim, keepdim)


@lowering(aten.all.default, aten.all.dim, aten.all.dims)
def all_(ctx: Context, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor | Declined:
    return _truth(ctx, x, "all", dim, keepdim)


def _truth(ctx: Context, x: Tensor, kind: str, dim: Dims, keepdim: bool) -> Tensor | Declined:
    """``any`` or ``all`` of the elements as bools."""
    if x.dtype.is_complex:
        return Declined("complex numbers")
    # Of `any` and `all`, unlike of sums, an empty list of dimensions means none.
    dims = [] if isinstance(dim, list | tuple) and not dim else dims_of(x, dim)
    result = torch.uint8 if x.dtype == torch.uint8 else torch.bool
    # In half precision what is stored decides: 1e-9 in float16 is 0, and not true.
    value = Value(as_stored(x).expr).to(torch.bool)
    return reduce(ctx, x, kind, dims, keepdim, value, result, lambda found: found.to(result))


# -- extremes ---------------------------------------------------------------------------------------------------------


NO_EXTREME = Declined("an extreme of a data-dependent number of elements: of none, that is an error")
"""The answer for an extreme over a data-dependent number of elements: over none, eager raises."""


def _perhaps_nothing(x: Tensor, dims: Sequence[int]) -> bool:
    """True if there may be no element, over which eager refuses to take an extreme."""
    return any(x.sizes[dim] == 0 or x.sizes[dim].unbounded for dim in dims)


def _extreme_kind(x: Tensor, kind: str) -> str:
    """The reduction for an extreme of this dtype: the largest of bools is whether any is true."""
    return {"max": "any", "min": "all"}[kind] if x.dtype == torch.bool else kind


def _ordered(x: Tensor) -> Expr:
    """The element in a dtype that has an order on every target: bools become integers."""
    return cast(x.expr, torch.int32) if x.dtype == torch.bool else x.expr


@lowering(aten.amax.default)
def amax(ctx: Context, x: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor | Declined:
    return _outermost(ctx, x, _extreme_kind(x, "max"), dims_of(x, dim), keepdim, x.dtype)


@lowering(aten.amin.default)
def amin(ctx: Context, x: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor | Declined:
    return _outermost(ctx, x, _extreme_kind(x, "min"), dims_of(x, dim), keepdim, x.dtype)


def _outermost(
    ctx: Context, x: Tensor, kind: str, dims: Sequence[int], keepdim: bool, dtype: torch.dtype
) -> Tensor | Declined:
    """One extreme, or the position of one, unless there may be no element."""
    element = as_stored(x) if kind in POSITIONS else x
    return NO_EXTREME if _perhaps_nothing(x, dims) else reduce(ctx, x, kind, dims, keepdim, Value(element.expr), dtype)


@lowering(aten.max.default)
def max_all(ctx: Context, x: Tensor) -> Tensor | Declined:
    return amax(ctx, x)


@lowering(aten.min.default)
def min_all(ctx: Context, x: Tensor) -> Tensor | Declined:
    return amin(ctx, x)


def _extreme(ctx: Context, x: Tensor, kind: str, dim: int, keepdim: bool) -> list[Tensor] | Declined:
    # Largest and place in one pass, by two accumulators.
    """The largest or smallest element and its position, in one pass with two accumulators."""
    if _perhaps_nothing(x, dims_of(x, dim)):
        return NO_EXTREME
    return ctx.reduce(
        x,
        dims_of(x, dim),
        # The place among values as they are stored: some are equal then that were not, and eager takes the first.
        [(_extreme_kind(x, kind), x.expr, x.expr.dtype), (f"arg{kind}", _ordered(as_stored(x)), torch.int64)],
        lambda best, place: [(best, x.dtype), (place, torch.int64)],
        keepdim,
    )


@lowering(aten.max.dim)
def max_dim(ctx: Context, x: Tensor, dim: int, keepdim: bool = False) -> list[Tensor] | Declined:
    return _extreme(ctx, x, "max", dim, keepdim)


@lowering(aten.min.dim)
def min_dim(ctx: Context, x: Tensor, dim: int, keepdim: bool = False) -> list[Tensor] | Declined:
    return _extreme(ctx, x, "min", dim, keepdim)


@lowering(aten.argmax.default)
def argmax(ctx: Context, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Declined:
    return _outermost(ctx, x, "argmax", dims_of(x, dim), keepdim, torch.int64)


@lowering(aten.argmin.default)
def argmin(ctx: Context, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Declined:
    return _outermost(ctx, x, "argmin", dims_of(x, dim), keepdim, torch.int64)


# -- moments ----------------------------------------------------------------------------------------------------------


def moments(
    ctx: Context, x: Tensor, dims: Sequence[int], correction: float, keepdim: bool, finish: Callable[..., Any],
    dtype: torch.dtype | None = None,
) -> list[Tensor]:  # fmt: skip
    """Mean and variance in one stable pass, in ``dtype``; ``finish(mean, variance)`` returns the values to keep."""
    dtype = dtype or compute_dtype(x.dtype)

    def outcome(mean: Expr, m2: Expr, weight: Expr) -> Sequence[tuple[Expr, torch.dtype]]:
        # m2 is the sum of squared distances from the mean.
        divisor = count(x, dims, dtype)
        # As torch: no division by a negative number where there are fewer elements than are subtracted.
        if correction:
            divisor = maximum(divisor - correction, 0.0)
        return [(cast(value.expr, narrow), x.dtype) for value in finish(Value(mean), Value(m2) / divisor)]

    narrow = compute_dtype(x.dtype)
    return splitting.reduce(ctx, x, dims, [("welford", cast(x.expr, dtype), dtype)], outcome, keepdim)


def _moment(ctx: Context, x: Tensor, dim: Dims, correction: Any, keepdim: bool, finish: Callable[..., Any]) -> Any:
    if not x.dtype.is_floating_point:
        return Declined("a variance of numbers that are not real floats")
    if not isinstance(correction, int | float | None):
        return Declined("a correction that varies")
    dims = dims_of(x, dim)
    # It is NaN, with a warning that torch's own kernel gives.
    if any(x.sizes[d] == 0 for d in dims):
        return Declined("a variance of nothing")
    dtype = torch.float64 if x.device.type == "cpu" else None  # as torch's kernel, which sums squares up to 1e77
    return moments(ctx, x, dims, 1 if correction is None else correction, keepdim, finish, dtype)


@lowering(aten.var.correction)
def var(ctx: Context, x: Tensor, dim: Dims = None, *, correction: object = None, keepdim: bool = False) -> Any:
    results = _moment(ctx, x, dim, correction, keepdim, lambda mean, variance: [variance])
    return results if isinstance(results, Declined) else results[0]


@lowering(aten.std.correction)
def std(ctx: Context, x: Tensor, dim: Dims = None, *, correction: object = None, keepdim: bool = False) -> Any:
    results = _moment(ctx, x, dim, correction, keepdim, lambda mean, variance: [sqrt(variance)])
    return results if isinstance(results, Declined) else results[0]


@lowering(aten.var_mean.correction)
def var_mean(ctx: Context, x: Tensor, dim: Dims = None, *, correction: object = None, keepdim: bool = False) -> Any:
    return _moment(ctx, x, dim, correction, keepdim, lambda mean, variance: [variance, mean])


@lowering(aten.linalg_vector_norm.default)
def vector_norm(
    ctx: Context,
    x: Tensor,
    ord: float | Index = 2,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor | Declined:
    if isinstance(ord, Index):
        return Declined("an order that varies")
    result = dtype or x.dtype
    if not result.is_floating_point or x.dtype.is_complex:
        return Declined("complex numbers")
    dims, value = dims_of(x, dim), absolute(Value(x.expr).to(compute_dtype(result)))
    if any(x.sizes[d] == 0 for d in dims) or (abs(ord) == math.inf and _perhaps_nothing(x, dims)):
        return Declined("a norm of nothing")
    # Special orders have no powers: cheaper, and exact where powers would overflow.
    if ord in (math.inf, -math.inf):
        return reduce(ctx, x, "max" if ord > 0 else "min", dims, keepdim, value, result)
    if ord and all(
        x.sizes[d] == ONE for d in dims
    ):  # of one number, as eager: its powers could be infinite, or nothing
        return reduce(ctx, x, "max", dims, keepdim, value, result)
    if ord == 0:
        return reduce(ctx, x, "sum", dims, keepdim, differs(value, 0.0).to(value.dtype), result)
    if ord == 1:
        return reduce(ctx, x, "sum", dims, keepdim, value, result)
    if ord == 2:
        return reduce(ctx, x, "sum", dims, keepdim, value * value, result, sqrt)
    return reduce(
        ctx, x, "sum", dims, keepdim, call("pow", value, ord), result, lambda total: call("pow", total, 1.0 / ord)
    )


@lowering(aten.norm.ScalarOpt_dim, aten.norm.Scalar)
def norm(ctx: Context, x: Tensor, p: Any = 2, dim: Dims = None, keepdim: bool = False) -> Tensor | Declined:
    return vector_norm(ctx, x, 2 if p is None else p, dim, keepdim)


# -- softmax ----------------------------------------------------------------------------------------------------------


def widened(x: Tensor) -> Tensor:
    """``x`` as the dtype arithmetic uses: what reductions hand on is not narrowed in between."""
    return pure(x, x.expr, compute_dtype(x.dtype))


def keep(ctx: Context, x: Tensor, kind: str, dim: Dims, value: Value) -> Value:
    """A reduction with its dimensions kept, laid over ``x`` again."""
    result = reduce(ctx, x, kind, dims_of(x, dim), True, value, value.dtype)
    return Value(broadcast_to(result, x.sizes).expr)


@lowering(aten._softmax.default)
def softmax(ctx: Context, x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    value = Value(widened(x).expr)
    # The largest is subtracted: exp never overflows, and the largest term is 1.  Numerator and sum share the
    # expression, which the scheduler computes once or twice as it pays.
    shifted = exp(value - keep(ctx, x, "max", dim, value))
    return pure(x, (shifted / keep(ctx, x, "sum", dim, shifted)).expr, torch.float32 if half_to_float else x.dtype)


@lowering(aten._log_softmax.default)
def log_softmax(ctx: Context, x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    value = Value(widened(x).expr)
    shifted = value - keep(ctx, x, "max", dim, value)
    total = keep(ctx, x, "sum", dim, exp(shifted))
    return pure(x, (shifted - log(total)).expr, torch.float32 if half_to_float else x.dtype)


@lowering(aten._softmax_backward_data.default)
def softmax_backward(
    ctx: Context, grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype
) -> Tensor | Declined:
    """The gradient of softmax from its result: ``y * (g - sum(g * y))``."""
    if grad.sizes != output.sizes:
        return Declined("a gradient of another shape, which eager refuses")
    g, y = Value(grad.expr), Value(output.expr)
    # dx = y * (g - sum(g * y)).
    total = keep(ctx, output, "sum", dim, g * y)
    return convert(pure(output, (g * y - y * total).expr, compute_dtype(output.dtype)), input_dtype)


@lowering(aten._log_softmax_backward_data.default)
def log_softmax_backward(
    ctx: Context, grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype
) -> Tensor | Declined:
    if grad.sizes != output.sizes:
        return Declined("a gradient of another shape, which eager refuses")
    g, y = Value(grad.expr), Value(output.expr)
    # dx = g - softmax * sum(g), of which the output is the logarithm.
    total = keep(ctx, output, "sum", dim, g)
    return convert(pure(output, (g - exp(y) * total).expr, compute_dtype(output.dtype)), input_dtype)


@lowering(aten.logsumexp.default)
def logsumexp(ctx: Context, x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor | Declined:
    if not x.dtype.is_floating_point or any(x.sizes[d] == 0 for d in dims_of(x, dim)):
        return Declined("a logsumexp of nothing or of integers")
    value, dims = Value(x.expr), dims_of(x, dim)
    high = reduce(ctx, x, "max", dims, True, value, value.dtype)
    # Where the largest is infinite the difference would be NaN: with 0 in its place log(exp(inf)) and log(0) say it
    # right.
    safe = pure(high, where(equal(absolute(Value(high.expr)), math.inf), 0.0, Value(high.expr)).expr)
    total = keep(ctx, x, "sum", dim, exp(value - Value(broadcast_to(safe, x.sizes).expr)))
    result = pure(x, (log(total) + Value(broadcast_to(safe, x.sizes).expr)).expr)
    return _first_along(result, dims, keepdim)


def _first_along(x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    """A tensor that is constant along ``dims``, without repeating it."""
    sizes = tuple(ONE if dim in dims else size for dim, size in enumerate(x.sizes))
    # Its value does not depend on the place along these, so that 0 is as good as any.
    once = reindex(x, sizes, [ZERO if dim in dims else at for dim, at in enumerate(positions(sizes))])
    if keepdim:
        return once
    return reshape(once, [size for dim, size in enumerate(x.sizes) if dim not in dims])


# -- normalisation ----------------------------------------------------------------------------------------------------


@lowering(aten.native_layer_norm.default)
def layer_norm(
    ctx: Context, x: Tensor, shape: Sequence[object], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Any:
    dims = list(range(x.ndim - len(shape), x.ndim))
    if any(size == 0 for size in x.sizes):
        return Declined("a norm of nothing")
    wide = widened(x)
    mean, rstd = moments(ctx, wide, dims, 0, True, lambda mean, variance: [mean, call("rsqrt", variance + eps)])
    middle = Value(broadcast_to(mean, x.sizes).expr)
    if bias is not None:
        middle = middle + 0.0  # eager adds up from zero: it is not -0.0; without a bias, adding a zero tells the sign
    value = (Value(x.expr) - middle) * Value(broadcast_to(rstd, x.sizes).expr)
    if weight is not None:
        value = value * Value(broadcast_to(weight, x.sizes).expr)
    value = value + (0.0 if bias is None else Value(broadcast_to(bias, x.sizes).expr))
    kept = ctx.dtypes[1] if len(ctx.dtypes) == 3 else x.dtype
    return [pure(x, value.expr), convert(mean, kept), convert(rstd, kept)]


@lowering(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    ctx: Context, grad: Tensor, x: Tensor, shape: Sequence[object], mean: Tensor, rstd: Tensor,
    weight: Tensor | None, bias: Tensor | None, mask: Sequence[bool],
) -> Any:  # fmt: skip
    if any(size == 0 for size in x.sizes):
        return Declined("a norm of nothing")
    outer = list(range(x.ndim - len(shape)))
    inner = list(range(len(outer), x.ndim))
    g = Value(grad.expr)
    scale = Value(broadcast_to(rstd, x.sizes).expr)
    # With h the normalised x, dx = (g * w - mean(g * w) - h * mean(g * w * h)) / deviation, over the normalised
    # dimensions; the gradients of weight and bias are sums over all others.
    normal = (Value(x.expr) - Value(broadcast_to(mean, x.sizes).expr)) * scale
    results: list[Tensor | None] = [None, None, None]
    if mask[0]:
        weighted = g * Value(broadcast_to(weight, x.sizes).expr) if weight is not None else g
        n = count(x, inner, weighted.dtype)
        total, product = ctx.reduce(
            x, inner,
            [("sum", weighted.expr, weighted.dtype), ("sum", (weighted * normal).expr, weighted.dtype)],
            lambda a, b: [(a, weighted.dtype), (b, weighted.dtype)], True,
        )  # fmt: skip
        mean_grad = Value(broadcast_to(total, x.sizes).expr) / n
        mean_product = Value(broadcast_to(product, x.sizes).expr) / n
        results[0] = pure(x, ((weighted - mean_grad - normal * mean_product) * scale).expr)
    if mask[1] and weight is not None:
        results[1] = reduce(ctx, x, "sum", outer, False, g * normal, weight.dtype)
    if mask[2] and bias is not None:
        results[2] = reduce(ctx, x, "sum", outer, False, g, bias.dtype)
    return results
