"""Scatters: writes at positions that come from tensors, as set, added, or combined with the old element.

The result is a copy that a nest of its own then writes to.  Where several values go to one place, the last one stays,
as eager has it on CPUs.

A write is a store whose index mentions symbols (``p0``, ...) that stand for positions read from tensors; the bindings
say what is read.  ``domain`` is what the nest loops over: the shape of what is written, not of what is written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from inductor import costs
from inductor.ir.expr import Const, Expr, cast
from inductor.ir.index import ONE, ZERO, Index, Symbol
from inductor.ir.kernel import StoreMode
from inductor.lowerings.algebra import Value, equal, maximum, where
from inductor.lowerings.context import Context
from inductor.lowerings.fillers import filler
from inductor.lowerings.indexing import decline_empty_axis, gather_at, place, position, spread
from inductor.lowerings.pointwise import elementwise
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.sizes import contiguous_strides
from inductor.lowerings.values import (
    HALF,
    Tensor,
    as_index_value,
    at,
    broadcast_to,
    compute_dtype,
    convert,
    load,
    number,
    positions,
    pure,
    reindex,
)
from inductor.lowerings.views import reshape, wrap
from inductor.torch_versions import aten

Places = Sequence[tuple[Symbol, Expr]]
"""The symbols in an index that stand for positions read from tensors, each with the expression that reads it."""
ATOMIC = (torch.float32, torch.float64, torch.int32, torch.int64)
"""The dtypes that GPUs have atomic additions for."""
_OTHER_TYPE = "a source of another type, which eager refuses"
"""The reason for leaving a source of another dtype to torch."""


def copied(ctx: Context, x: Tensor) -> Tensor:
    """A buffer of its own with the same contents, to be written to."""
    whole = load(ctx.buffer(x.sizes, x.dtype, x.device))
    ctx.store(whole, x.expr)
    return whole


def scattered(
    ctx: Context, x: Tensor, domain: tuple[Index, ...], indices: Sequence[Index], places: Places, value: Expr,
    mode: StoreMode = "set",
) -> Tensor | Declined:  # fmt: skip
    """``x`` with ``value``, over the positions of ``domain``, at ``indices``, which mention symbols read from tensors.
    Sums and products of half precision are kept in float32 until they are whole."""
    if x.dtype.is_complex:
        return Declined("complex numbers")
    if declined := decline_empty_axis(places):
        return declined
    if x.device.type == "cuda" and torch.are_deterministic_algorithms_enabled():
        return Declined("writes that meet, where deterministic algorithms were asked for")
    # Each addition in half precision would round; the sum is rounded once, at the end.
    wide = replace(x, dtype=torch.float32, base=None) if x.dtype in HALF and mode in ("add", "mul") else x
    # Programs of a GPU meet at one place, so that they need atomic operations; on CPUs one thread runs what may meet,
    # but for whole numbers that are added up (``schedule/cpu``).
    if x.device.type == "cuda" and mode != "set" and (wide.dtype not in ATOMIC or mode == "mul"):
        return Declined(f"no atomic operation for {mode} in {x.dtype}")
    target = copied(ctx, wide)
    ctx.store(reindex(target, domain, indices), value, mode, tuple(places), domain=domain)
    return target if wide is x else convert(target, x.dtype)


# -- index_put --------------------------------------------------------------------------------------------------------


def _where_mask(ctx: Context, x: Tensor, mask: Tensor, values: Tensor) -> Tensor | Declined:
    """``x`` with one value wherever the mask holds."""
    # A mask may have fewer dimensions: those it has are the first.
    held = reindex(mask, x.sizes, positions(x.sizes)[: mask.ndim])
    filling = filler(ctx, values, x.dtype)
    if isinstance(filling, Declined):
        return filling
    return pure(x, where(Value(held.expr), Value(filling.expr), Value(x.expr)).expr)


@lowering(aten.index_put.default)
def index_put(
    ctx: Context, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor | Declined:
    first = indices[0]
    # ``x[mask] = number`` changes every element on its own, and needs no positions.
    if len(indices) == 1 and first is not None and first.dtype == torch.bool and not values.ndim:
        if accumulate or x.dtype.is_complex:
            return Declined("adding where a mask holds")
        if first.sizes != x.sizes[: first.ndim]:
            return Declined("a mask of another shape, which eager refuses")
        return _where_mask(ctx, x, first, values)
    if values.dtype != x.dtype:
        return Declined(_OTHER_TYPE)
    laid = spread(ctx, x, indices)
    if isinstance(laid, Declined):
        return laid
    sizes, where_, places = laid
    if not _spreads_over(values.sizes, sizes):
        return Declined("values of another shape than is replaced, which eager refuses")
    value = broadcast_to(convert(values, x.dtype), sizes)
    return scattered(ctx, x, sizes, where_, places, value.expr, "add" if accumulate else "set")


def _spreads_over(sizes: Sequence[Index], wanted: Sequence[Index]) -> bool:
    """True if the values can be broadcast to the wanted sizes for certain: fake tensors do not check it, and dynamic
    sizes may be equal by chance."""
    pairs = zip(reversed(sizes), reversed(wanted), strict=False)
    return len(sizes) <= len(wanted) and all(size in (ONE, other) for size, other in pairs)


@lowering(aten.index_add.default)
def index_add(
    ctx: Context, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: object = 1
) -> Tensor | Declined:
    scaled = elementwise((source, alpha), lambda value, factor: value * factor) if alpha != 1 else source
    return scaled if isinstance(scaled, Declined) else _slices(ctx, x, dim, index, scaled, "add")


@lowering(aten.index_copy.default)
def index_copy(ctx: Context, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor | Declined:
    return _slices(ctx, x, dim, index, source, "set")


def _slices(ctx: Context, x: Tensor, dim: int, index: Tensor, source: Tensor, mode: StoreMode) -> Tensor | Declined:
    """Whole slices of ``source`` written at the positions in ``index`` along ``dim``, none counted from the end."""
    if not x.ndim or not index.ndim or source.ndim != x.ndim:
        return Declined("a 0-d tensor")
    if source.dtype != x.dtype:
        return Declined(_OTHER_TYPE)
    dim = wrap(dim, x.ndim)
    if source.sizes != (*x.sizes[:dim], index.sizes[0], *x.sizes[dim + 1 :]):
        return Declined("a source of another shape, which eager refuses")
    where_ = list(positions(source.sizes))
    chosen = reindex(index, source.sizes, [where_[dim]])
    symbol = place(0, x.sizes[dim])
    # Every other dimension is written where it is read.
    where_[dim] = Index.of(symbol)
    bound = [(symbol, position(chosen, x.sizes[dim]))]
    return scattered(ctx, x, source.sizes, where_, bound, source.expr, mode)


# -- scatter ----------------------------------------------------------------------------------------------------------


def _along(x: Tensor, dim: int, index: Tensor) -> tuple[list[Index], Places]:
    """The index in ``x`` for every element of ``index``, which holds positions along ``dim``."""
    symbol = place(0, x.sizes[dim])
    indices = list(positions(index.sizes))
    indices[dim] = Index.of(symbol)
    return indices, [(symbol, position(index, x.sizes[dim]))]


def _vector(t: Tensor) -> Tensor:
    """A tensor of no dimensions as one of a single element; any other as it is."""
    return t if t.ndim else reshape(t, (ONE,))


def _scatter(ctx: Context, x: Tensor, dim: int, index: Tensor, value: Any, mode: StoreMode) -> Tensor | Declined:
    """A scatter of ``value``, a number or a tensor at least as large as ``index``."""
    if isinstance(value, complex):
        return Declined("complex numbers")
    if not isinstance(value, (Tensor, int, float)):
        return Declined("a number that varies")
    if not x.ndim or not index.ndim:
        # Of no dimensions: as vectors of one element.
        written = _vector(value) if isinstance(value, Tensor) else value
        result = _scatter(ctx, _vector(x), 0, _vector(index), written, mode)
        return result if isinstance(result, Declined) else reshape(result, x.sizes)
    if {index.ndim, value.ndim if isinstance(value, Tensor) else index.ndim} != {x.ndim}:
        return Declined("operands of other ranks, which eager takes where there is nothing to write")
    dim = wrap(dim, x.ndim)
    if mode == "set" and (chosen := _one_place_per_row(x, dim, index, value)) is not None:
        return chosen
    if isinstance(value, Tensor):
        source = at(convert(value, x.dtype), positions(index.sizes))
    else:
        source = number(value, compute_dtype(x.dtype))
    return scattered(ctx, x, index.sizes, *_along(x, dim, index), source, mode)


def _one_place_per_row(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor | None:
    """The scatter of one element per row as a comparison at every element, which needs no memory; None where it is
    another."""
    #   x.scatter(1, index of (rows, 1), value): element (r, c) is value where index[r] == c, else x[r, c]
    # as the gradient of picking one logit per row, which is then fused with what reads it.
    rows = [size for d, size in enumerate(x.sizes) if d != dim]
    if index.sizes[dim] != ONE or rows != [size for d, size in enumerate(index.sizes) if d != dim]:
        return None
    if x.dtype.is_complex or (isinstance(value, Tensor) and value.sizes != index.sizes):
        return None
    if not (x.sizes[dim] - 1).is_nonnegative():  # an element that asks is one that there is
        return None
    here = as_index_value(positions(x.sizes)[dim], torch.int64)
    chosen = equal(Value(position(broadcast_to(index, x.sizes), x.sizes[dim])), Value(here))
    if isinstance(value, Tensor):
        new = Value(broadcast_to(convert(value, x.dtype), x.sizes).expr)
    else:
        new = Value(number(value, compute_dtype(x.dtype)))
    return pure(x, where(chosen, new, Value(x.expr)).expr)


@lowering(aten.scatter.value, aten.scatter.src)
def scatter(ctx: Context, x: Tensor, dim: int, index: Tensor, value: object) -> Tensor | Declined:
    return _scatter(ctx, x, dim, index, value, "set")


@lowering(aten.scatter_add.default)
def scatter_add(ctx: Context, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor | Declined:
    return _scatter(ctx, x, dim, index, src, "add")


@lowering(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_combined(
    ctx: Context, x: Tensor, dim: int, index: Tensor, value: object, *, reduce: str
) -> Tensor | Declined:
    return _scatter(ctx, x, dim, index, value, "add" if reduce == "add" else "mul")


_MODES: dict[str, StoreMode] = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


@lowering(aten.scatter_reduce.two)
def scatter_reduce(
    ctx: Context, x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor | Declined:
    if x.dtype == torch.bool or (reduce == "mean" and not x.dtype.is_floating_point):
        return Declined("a mean of integers, or bool")
    start: Tensor | Declined = x
    if not include_self:
        # What receives values forgets its own; what receives none keeps it.
        start = _scatter(ctx, x, dim, index, _neutral(reduce, x.dtype), "set")
    if isinstance(start, Declined):
        return start
    total = _scatter(ctx, start, dim, index, src, _MODES[reduce])
    if reduce != "mean" or isinstance(total, Declined):
        return total
    # How many values each place got, its own included or not; 1 at least, for those that got none.
    dtype = counting_dtype(index.numel)
    start = Tensor(x.sizes, dtype, x.device, number(int(include_self), dtype))
    count = _scatter(ctx, start, dim, index, 1, "add")
    if isinstance(count, Declined):
        return count
    divisor = maximum(Value(count.expr), 1)
    return pure(x, (Value(total.expr) / divisor.to(total.expr.dtype)).expr)


def counting_dtype(most: Index) -> torch.dtype:
    """The dtype that counts up to ``most``: single precision where it holds every number, which divides without a
    conversion, else integers."""
    largest = most.as_int()
    return torch.float32 if largest is not None and largest < 1 << 24 else torch.int64


def _neutral(reduce: str, dtype: torch.dtype) -> float | int:
    """The number that leaves any result of the reduction unchanged."""
    if reduce in ("sum", "mean", "prod"):
        return 1 if reduce == "prod" else 0
    if dtype.is_floating_point:
        return -torch.inf if reduce == "amax" else torch.inf
    return torch.iinfo(dtype).min if reduce == "amax" else torch.iinfo(dtype).max


# -- embeddings -------------------------------------------------------------------------------------------------------


@lowering(aten.embedding_dense_backward.default)
def embedding_backward(
    ctx: Context, grad: Tensor, indices: Tensor, num_weights: object, padding_idx: object, scale_grad_by_freq: bool
) -> Tensor | Declined:
    if scale_grad_by_freq:
        return Declined("gradients scaled by frequency")
    sizes = (ctx.sizes.index(num_weights), grad.sizes[-1])
    zeros = Tensor(sizes, grad.dtype, grad.device, Const(0.0, compute_dtype(grad.dtype)))
    where_ = positions(grad.sizes)
    chosen = reindex(indices, grad.sizes, where_[:-1])
    symbol = place(0, sizes[0])
    value = Value(grad.expr)
    padding = ctx.sizes.index(padding_idx)
    # Negative says that there is none.
    if (padding.as_int() or 0) >= 0:
        padded = Value(as_index_value(padding, torch.int64))
        # Adds 0 to the row of padding, rather than not to write.
        value = where(equal(Value(cast(chosen.expr, torch.int64)), padded), 0.0, value)
    bound = [(symbol, position(chosen, sizes[0]))]
    if _is_mostly_zero(zeros, indices):
        return _by_first_place(ctx, zeros, indices, grad.sizes, bound, value)
    return scattered(ctx, zeros, grad.sizes, [Index.of(symbol), where_[-1]], bound, value.expr, "add")


def _is_mostly_zero(table: Tensor, indices: Tensor) -> bool:
    """True if so few rows of a gradient are not zero that sums in full precision are better kept for these alone."""
    rows, used, elements = (size.as_int() for size in (table.sizes[0], indices.numel, table.numel))
    if table.device.type != "cuda" or table.dtype not in HALF or rows is None or used is None:
        return False
    return used < rows and elements is not None and elements >= costs.GPU.large_table


def _by_first_place(
    ctx: Context, table: Tensor, indices: Tensor, domain: tuple[Index, ...], bound: Places, value: Value
) -> Tensor | Declined:
    """The gradient of a table: the sum for a row is kept where the row is named first, and then written to the row."""
    # In four steps, for tokens [5, 2, 5]:
    #   first[5] = 0, first[2] = 1        the smallest place that names a row; ``count`` for rows that are never named
    #   home     = [0, 1, 0]              for each place, the first one of its row
    #   sums[home[n]] += value[n]         in float32, as many rows as there are tokens and not as the table has
    #   table[tokens[n]] = sums[home[n]]  several write the same to one row, so that they may meet
    count, places = indices.numel, positions(domain)
    symbol = bound[0][0]
    here = [(symbol, position(indices, table.sizes[0]))]
    number = sum(
        (at_ * step for at_, step in zip(positions(indices.sizes), contiguous_strides(indices.sizes), strict=True)),
        ZERO,
    )
    never = Tensor(table.sizes[:1], torch.int32, table.device, as_index_value(count, torch.int32))
    first = scattered(ctx, never, indices.sizes, [Index.of(symbol)], here, as_index_value(number, torch.int32), "min")
    home = first if isinstance(first, Declined) else gather_at(ctx, first, indices.sizes, [Index.of(symbol)], here)
    if isinstance(home, Declined):
        return home
    row = place(1, count)
    at_home = [(row, position(reindex(ctx.realize(home), domain, places[:-1]), count))]
    zeros = Tensor((count, domain[-1]), torch.float32, table.device, Const(0.0, torch.float32))
    sums = scattered(ctx, zeros, domain, [Index.of(row), places[-1]], at_home, value.expr, "add")
    rows = sums if isinstance(sums, Declined) else gather_at(ctx, sums, domain, [Index.of(row), places[-1]], at_home)
    if isinstance(rows, Declined):
        return rows
    return scattered(ctx, table, domain, [Index.of(symbol), places[-1]], bound, rows.expr)
