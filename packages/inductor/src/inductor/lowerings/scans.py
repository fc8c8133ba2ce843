"""Scans: running sums, products and extremes, which keep a result for every element along a dimension."""

from __future__ import annotations

from typing import Any

import torch

from inductor.ir.expr import Expr, cast
from inductor.lowerings.algebra import Value, equal, isnan, where
from inductor.lowerings.context import Context
from inductor.lowerings.promotion import category
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.values import Tensor, as_index_value, compute_dtype, convert, positions, pure
from inductor.lowerings.views import wrap
from inductor.torch_versions import aten


def _accumulated(x: Tensor, dtype: torch.dtype) -> torch.dtype:
    """The dtype that eager accumulates a scan in."""
    if not dtype.is_floating_point:
        return torch.int64
    return torch.float64 if dtype == torch.float32 and x.device.type == "cpu" else compute_dtype(dtype)


def _running(ctx: Context, x: Tensor, kind: str, dim: int, dtype: torch.dtype | None) -> Tensor | Declined:
    """A running sum or product."""
    result = dtype or (torch.int64 if category(x.dtype) < 2 else x.dtype)
    if x.dtype.is_complex or result.is_complex or category(result) == 0:
        return Declined("complex numbers or bool")
    x = convert(x, result)
    if not x.ndim or any(size == 0 for size in x.sizes):
        # Nothing to run along: a 0-d tensor is its own scan, an empty one has no elements.
        return pure(x, x.expr)
    kept = _accumulated(x, result)
    if kind == "sum" and x.sizes[wrap(dim, x.ndim)] == 1:
        return pure(x, (Value(x.expr) + 0).expr)  # eager begins with a zero, which takes away the sign of another
    return ctx.scan(x, wrap(dim, x.ndim), [(kind, lambda: cast(x.expr, kept), result)])[0]


@lowering(aten.cumsum.default)
def cumsum(ctx: Context, x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor | Declined:
    return _running(ctx, x, "sum", dim, dtype)


@lowering(aten.cumprod.default)
def cumprod(ctx: Context, x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor | Declined:
    return _running(ctx, x, "prod", dim, dtype)


def _running_extreme(ctx: Context, x: Tensor, kind: str, dim: int) -> list[Tensor] | Declined:
    """A running extreme, and the position where it was met last: one counts if its element is as good as all before
    it."""
    if x.dtype.is_complex or x.dtype == torch.bool or not x.ndim or any(size == 0 for size in x.sizes):
        return Declined("complex numbers or bool, or nothing to run along")
    if x.device.type == "cpu" and wrap(dim, x.ndim) == x.ndim - 1:
        return Declined("extremes along the lanes of a vector: eager guesses that few elements are extreme")
    value, here = Value(x.expr), Value(as_index_value(positions(x.sizes)[wrap(dim, x.ndim)], torch.int64))

    def place(best: Expr) -> Expr:
        met = equal(value, Value(best))
        met = met | isnan(value) if value.dtype.is_floating_point else met
        return where(met, here, 0).expr

    # The position of an extreme is itself a running maximum: of positions where the extreme was met.
    scans: list[tuple[str, Any, torch.dtype]] = [(kind, lambda: x.expr, x.dtype), ("max", place, torch.int64)]
    return ctx.scan(x, wrap(dim, x.ndim), scans)


@lowering(aten.cummax.default)
def cummax(ctx: Context, x: Tensor, dim: int) -> list[Tensor] | Declined:
    return _running_extreme(ctx, x, "max", dim)


@lowering(aten.cummin.default)
def cummin(ctx: Context, x: Tensor, dim: int) -> list[Tensor] | Declined:
    return _running_extreme(ctx, x, "min", dim)
