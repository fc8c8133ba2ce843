"""Random numbers. By default torch's operators draw them from its own stream, in eager's order.

With ``Options.random = "fused"`` they are computed where they are used: from a seed that torch's generator draws once
per call, and the number of the element.  A mask of dropout then costs no memory, and is the same wherever it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from inductor.ir.expr import Expr, Load, apply
from inductor.ir.index import ZERO, Index
from inductor.lowerings.algebra import Value
from inductor.lowerings.context import Context
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.sizes import contiguous_strides
from inductor.lowerings.values import Tensor, as_index_value, compute_dtype, convert, positions, pure
from inductor.torch_versions import aten

STREAM = 1 << 40
"""The distance between the streams of two operators of a graph: no tensor has so many elements."""
FROM_EAGER = Declined("random numbers come from torch's own stream")
"""The answer where numbers come from torch's own stream."""


def _seed(ctx: Context, device: torch.device) -> Expr:
    """The seed of this call."""
    if device not in ctx.seeds:
        buffer = ctx.buffer((Index.of(1),), torch.int64, device)
        options: dict[str, object] = {"dtype": torch.int64, "device": device}
        ctx.call(aten.randint.low, [0, 2**63 - 1, [1]], options, [buffer], None)
        ctx.seeds[device] = buffer.name
    return Load(ctx.seeds[device], ZERO, torch.int64)


def drawn(ctx: Context, op: str, sizes: tuple[Index, ...], dtype: torch.dtype, device: torch.device) -> Value:
    """One random number per element, in float32 or float64."""
    steps = contiguous_strides(sizes)
    place = sum((at * step for at, step in zip(positions(sizes), steps, strict=True)), ZERO)
    offset = as_index_value(place + ctx.next_stream() * STREAM, torch.int64)
    return Value(apply(op, _seed(ctx, device), offset, dtype=compute_dtype(dtype)))


def _filled(ctx: Context, op: str, sizes: tuple[Index, ...], dtype: torch.dtype | None, device: object) -> Any:
    """A tensor of random numbers, where kernels draw them."""
    dtype, device = dtype or torch.get_default_dtype(), torch.device(device or "cpu")
    if not ctx.fused_random or not dtype.is_floating_point:
        return FROM_EAGER
    value = drawn(ctx, op, sizes, dtype, device)
    wide = Tensor(sizes, compute_dtype(dtype), device, value.expr)
    return convert(wide, dtype)


@lowering(aten.rand.default)
def rand(ctx: Context, size: Sequence[object], *, dtype: object = None, device: object = None, **_: object) -> Any:
    return _filled(ctx, "rand", ctx.sizes.indices(size), dtype, device)


@lowering(aten.randn.default)
def randn(ctx: Context, size: Sequence[object], *, dtype: object = None, device: object = None, **_: object) -> Any:
    return _filled(ctx, "randn", ctx.sizes.indices(size), dtype, device)


@lowering(aten.rand_like.default)
def rand_like(ctx: Context, x: Tensor, *, dtype: object = None, device: object = None, **_: object) -> Any:
    return _filled(ctx, "rand", x.sizes, dtype or x.dtype, device or x.device)


@lowering(aten.randn_like.default)
def randn_like(ctx: Context, x: Tensor, *, dtype: object = None, device: object = None, **_: object) -> Any:
    return _filled(ctx, "randn", x.sizes, dtype or x.dtype, device or x.device)


def _truths(ctx: Context, x: Tensor, probability: float) -> Value:
    """Bools that are true with this probability."""
    return drawn(ctx, "rand", x.sizes, torch.float32, x.device) < probability


@lowering(aten.bernoulli.p)
def bernoulli(ctx: Context, x: Tensor, p: float = 0.5, *, generator: object = None) -> Tensor | Declined:
    if not ctx.fused_random or generator is not None:
        return FROM_EAGER
    return pure(x, _truths(ctx, x, p).to(compute_dtype(x.dtype)).expr)


@lowering(aten.native_dropout.default)
def native_dropout(ctx: Context, x: Tensor, p: float, train: bool | None = True) -> list[Tensor] | Declined:
    if not ctx.fused_random or train is False or not 0 <= p < 1:
        return FROM_EAGER
    # The mask is a result of its own, which backward reads: computed once, not in both.
    kept = ctx.realize(Tensor(x.sizes, torch.bool, x.device, _truths(ctx, x, 1.0 - p).expr))
    scaled = Value(x.expr) * Value(kept.expr).to(x.expr.dtype) * (1.0 / (1.0 - p))
    return [pure(x, scaled.expr), kept]
