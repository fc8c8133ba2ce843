"""Batch and group normalization, forward and backward: statistics over some dimensions, then a pass that uses them.

Statistics are float32 for half types and narrowed only where they are kept for backward (``_saved_dtype``): what eager
keeps is what backward is given.  Channels are dimension 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from inductor import costs
from inductor.ir.expr import Const, loads
from inductor.ir.index import ONE, ZERO, Index
from inductor.lowerings import splitting
from inductor.lowerings.algebra import Value, rsqrt
from inductor.lowerings.context import Context
from inductor.lowerings.convolution import fold
from inductor.lowerings.reductions import count, moments, widened
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.values import Tensor, at, broadcast_to, compute_dtype, convert, positions, pure
from inductor.lowerings.views import reshape
from inductor.torch_versions import aten


def along(tensor: Tensor, like: Tensor, dim: int = 1) -> Value:
    """A vector laid along one dimension of ``like``, as a value."""
    return Value(at(tensor, [positions(like.sizes)[dim]]))


def others(x: Tensor) -> list[int]:
    """The dimensions of ``x`` but that of the channels."""
    return [dim for dim in range(x.ndim) if dim != 1]


# -- batch normalisation ----------------------------------------------------------------------------------------------


def _normalised(
    x: Tensor, mean: Value, scale: Value, weight: Tensor | None, bias: Tensor | None, *, plus_zero: bool
) -> Tensor:
    """``(x - mean) * scale * weight + bias``.  With ``plus_zero`` a missing bias counts as 0, as eager adds it: no zero
    is negative then."""
    value = (Value(x.expr) - mean) * scale
    if weight is not None:
        value = value * along(weight, x)
    if bias is not None:
        value = value + along(bias, x)
    elif plus_zero:
        value = value + 0.0
    return pure(x, value.expr)


def _nothing(x: Tensor, dtype: torch.dtype) -> Tensor:
    """An empty tensor, in the place of statistics that are not kept."""
    return Tensor((ZERO,), dtype, x.device, Const(0.0, compute_dtype(dtype)))


def _saved_dtype(ctx: Context, x: Tensor) -> torch.dtype:
    # The tracer's dtype of the second result; a form with one result keeps nothing.
    """The dtype of the statistics kept for backward."""
    return ctx.dtypes[1] if len(ctx.dtypes) > 1 else compute_dtype(x.dtype)


def _with_statistics(
    ctx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(output, mean, 1 / deviation, unbiased variance) of a batch."""
    # As torch's kernel for CPUs: means may be far from zero.
    exact = torch.float64 if x.device.type == "cpu" else compute_dtype(x.dtype)
    dims = others(x)
    n = count(x, dims, exact)

    def kept(mean: Value, variance: Value) -> list[Value]:
        # Batches are normalised by the biased variance; the running one takes the unbiased.
        return [mean, rsqrt(variance + eps), variance * (n / (n - 1.0))]

    mean, scale, variance = moments(ctx, widened(x), dims, 0, False, kept, exact)
    output = _normalised(x, along(mean, x), along(scale, x), weight, bias, plus_zero=True)
    return output, mean, scale, variance


def _without_statistics(
    ctx: Context,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
) -> Tensor:
    """``x * scale + shift`` with one scale and shift per channel, which the convolution behind ``x`` may do."""
    # No kernel of its own for two small vectors: who computes the elements reads all four.
    if x.device.type != "cpu":
        return _normalised(x, along(mean, x), rsqrt(along(variance, x) + eps), weight, bias, plus_zero=True)
    dtype = compute_dtype(x.dtype)
    # On CPUs scale and shift are computed once per channel, where also the convolution can take them.
    factor = rsqrt(Value(variance.expr).to(dtype) + eps)
    if weight is not None:
        factor = factor * Value(weight.expr).to(dtype)
    scale = ctx.realize(pure(variance, factor.expr, dtype))
    without = 0.0 if bias is None else Value(bias.expr).to(dtype)
    offset = without - Value(mean.expr).to(dtype) * Value(scale.expr)
    shift = ctx.realize(pure(mean, offset.expr, dtype))
    if (folded := fold(ctx, x, scale, shift)) is not None:
        return folded
    return pure(x, (Value(x.expr) * along(scale, x) + along(shift, x)).expr)


def _moved(running: Tensor, batch: Tensor, momentum: float) -> Tensor:
    """A running statistic after one more batch."""
    value = Value(batch.expr).to(running.expr.dtype) * momentum + Value(running.expr) * (1.0 - momentum)
    return pure(running, value.expr)


def _declines(x: Tensor) -> Declined | None:
    if any(size == 0 for size in x.sizes):
        return Declined("a norm of nothing")
    return None


@lowering(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    ctx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor,
    training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    if (declined := _declines(x)) is not None:
        return declined
    if not training:
        saved = _nothing(x, _saved_dtype(ctx, x))
        output = _without_statistics(ctx, x, weight, bias, running_mean, running_var, eps)
        return [output, saved, saved, pure(running_mean, running_mean.expr), pure(running_var, running_var.expr)]
    output, mean, scale, variance = _with_statistics(ctx, x, weight, bias, eps)
    kept = _saved_dtype(ctx, x)
    moved = [_moved(running_mean, mean, momentum), _moved(running_var, variance, momentum)]
    return [output, convert(mean, kept), convert(scale, kept), *moved]


@lowering(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(
    ctx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> Any:
    if (declined := _declines(x)) is not None:
        return declined
    output, mean, scale, _ = _with_statistics(ctx, x, weight, bias, eps)
    kept = _saved_dtype(ctx, x)
    return [output, convert(mean, kept), convert(scale, kept)]


@lowering(aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(
    ctx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    saved = _nothing(x, _saved_dtype(ctx, x))
    return [_without_statistics(ctx, x, weight, bias, running_mean, running_var, eps), saved, saved]


@lowering(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def batch_norm(
    ctx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Eager's own form, which changes the running statistics in place."""
    if (declined := _declines(x)) is not None:
        return declined
    if not training and running_mean is not None and running_var is not None:
        return batch_norm_inference(ctx, x, weight, bias, running_mean, running_var, momentum, eps)
    output, mean, scale, variance = _with_statistics(ctx, x, weight, bias, eps)
    for running, batch in ((running_mean, mean), (running_var, variance)):
        if running is None:
            continue
        # Written in place: the operator's schema does not say so, and ``lower`` has computed what reads the old
        # contents.
        running = ctx.realize(running)
        assert running.base is not None
        ctx.mutated.add(running.base)
        ctx.store(running, _moved(running, batch, momentum).expr)
    kept = _saved_dtype(ctx, x)
    return [output, convert(mean, kept), convert(scale, kept)]


@lowering(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    ctx: Context, grad: Tensor, x: Tensor, weight: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, save_mean: Tensor | None, save_scale: Tensor | None, training: bool, eps: float,
    mask: Sequence[bool],
) -> Any:  # fmt: skip
    if (declined := _declines(x)) is not None:
        return declined
    if training and save_mean is not None and save_scale is not None:
        mean, scale = along(save_mean, x), along(save_scale, x)
    elif not training and running_mean is not None and running_var is not None:
        mean, scale = along(running_mean, x), rsqrt(along(running_var, x) + eps)
    else:
        return Declined("no statistics")
    # It is read in two passes, by the sums and by the result.
    if sum(1 for _ in loads(grad.expr)) > costs.ANY.gradient_reads:
        grad = ctx.realize(grad)
    dims, g = others(x), Value(grad.expr)
    n = count(x, dims, g.dtype)
    # With h the normalised x and s its scale, dx = (g - (sum(g) + h * sum(g * h)) / n) * s * weight.  The two sums are
    # also the gradients of bias and weight.  In inference the statistics do not depend on x, and only g * s * weight is
    # left.
    normal = (Value(x.expr) - mean) * scale
    reductions = [("sum", g.expr, g.dtype), ("sum", (g * normal).expr, g.dtype)]
    total, product = splitting.reduce(ctx, x, dims, reductions, lambda a, b: [(a, g.dtype), (b, g.dtype)])
    factor = scale if weight is None else scale * along(weight, x)
    centred = g - (along(total, x) + normal * along(product, x)) / n if training else g
    gradient = pure(x, (centred * factor).expr)
    kept = x.dtype if weight is None else weight.dtype
    parts = [gradient, convert(product, kept), convert(total, kept)]
    return [part if wanted else None for part, wanted in zip(parts, mask, strict=True)]


# -- group normalisation ----------------------------------------------------------------------------------------------


def grouped(x: Tensor, groups: int) -> Tensor:
    """``x`` with its channels split into groups: (batch, groups, channels of a group, places)."""
    places = ONE
    for size in x.sizes[2:]:
        places = places * size
    # Groups are runs of neighbouring channels, so that splitting is a view.
    return reshape(x, (x.sizes[0], Index.of(groups), x.sizes[1] // groups, places))


@lowering(aten.native_group_norm.default)
def group_norm(
    ctx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, n: object, c: object, hxw: object, groups: int,
    eps: float,
) -> Any:  # fmt: skip
    if (declined := _declines(x)) is not None:
        return declined
    if any(given is not None and given.sizes != x.sizes[1:2] for given in (weight, bias)):
        return Declined("a weight or bias that is not one number per channel, which eager refuses")
    parts = grouped(x, groups)
    mean, scale = moments(ctx, widened(parts), [2, 3], 0, False, lambda mean, variance: [mean, rsqrt(variance + eps)])
    # One number per group, over all channels and places of it: spread out in the grouped shape, then seen in the plain
    # one.
    laid = [
        Value(reshape(broadcast_to(reshape(part, (*part.sizes, ONE, ONE)), parts.sizes), x.sizes).expr)
        for part in (mean, scale)
    ]
    kept = _saved_dtype(ctx, x)
    output = _normalised(x, laid[0], laid[1], weight, bias, plus_zero=False)
    return [output, convert(mean, kept), convert(scale, kept)]
