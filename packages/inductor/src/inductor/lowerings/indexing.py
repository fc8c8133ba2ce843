"""Reading and writing at places that come from tensors.

A position read from a tensor becomes a symbol of the index, bound to the expression that computes it.  The operator
``wrapped`` counts from the end where the position is negative, as indexing does; ``within`` does not, as gather and
embedding do not.  Both make the call raise IndexError where the position is outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from inductor.ir.expr import Const, Expr, IndexValue, Masked, apply, cast, loads, walk
from inductor.ir.index import ONE, Index, Symbol
from inductor.lowerings.algebra import Value, equal, where
from inductor.lowerings.context import Context
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.values import (
    Tensor,
    as_index_value,
    at,
    bind,
    bindable,
    broadcast_sizes,
    broadcast_to,
    compute_dtype,
    convert,
    cost,
    load,
    number,
    positions,
    pure,
    reindex,
)
from inductor.lowerings.views import wrap

aten = torch.ops.aten
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
INLINE_COST = 4


def position(index: Tensor, size: Index, op: str = "within") -> Expr:
    """The element of ``index`` as a place on an axis of ``size``; ``wrapped`` lets it count from the end."""
    return apply(op, cast(index.expr, torch.int64), as_index_value(size, torch.int64))


def place(order: int, size: Index) -> Symbol:
    """The symbol that stands for the ``order``-th position read from a tensor."""
    return Symbol(f"p{order}", size)


def gather_at(
    ctx: Context, x: Tensor, sizes: tuple[Index, ...], indices: Sequence[Index], places: Sequence[tuple[Symbol, Expr]]
) -> Tensor | Declined:
    """A tensor of ``sizes`` whose elements are ``x`` at ``indices``, which mention symbols read from tensors."""
    if _unchecked(places):
        return UNCHECKED
    symbols = [symbol for symbol, _ in places]
    if cost(x.expr, INLINE_COST + 1) > INLINE_COST or _has_places(x) or not bindable(x.expr, symbols):
        x = ctx.realize(x)
    element = bind(at(x, indices), places)
    return Tensor(sizes, x.dtype, x.device, element)


UNCHECKED = Declined("a position on an axis of size 1, which has no symbol to check")


def _unchecked(places: Sequence[tuple[Symbol, Expr]]) -> bool:
    """Whether a position would vanish, because an axis of size 1 is always at 0, and with it the check of its value."""
    return any(symbol.size == ONE for symbol, _ in places)


def _has_places(x: Tensor) -> bool:
    return any(load.bindings for load in loads(x.expr)) or any(
        isinstance(node, Masked | IndexValue) for node in walk(x.expr)
    )


@lowering(aten.index_select.default)
def index_select(ctx: Context, x: Tensor, dim: int, index: Tensor) -> Tensor | Declined:
    if not x.ndim or x.dtype.is_complex or not index.ndim:
        return Declined("a 0-d tensor or complex numbers")
    dim = wrap(dim, x.ndim)
    sizes = (*x.sizes[:dim], index.sizes[0], *x.sizes[dim + 1 :])
    where_ = list(positions(sizes))
    chosen = reindex(index, sizes, [where_[dim]])
    symbol = place(0, x.sizes[dim])
    indices = [*where_[:dim], Index.of(symbol), *where_[dim + 1 :]]
    return gather_at(ctx, x, sizes, indices, [(symbol, position(chosen, x.sizes[dim]))])


@lowering(aten.gather.default)
def gather(ctx: Context, x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor | Declined:
    if not x.ndim or x.ndim != index.ndim:
        return Declined("a 0-d tensor")
    dim = wrap(dim, x.ndim)
    symbol = place(0, x.sizes[dim])
    indices = list(positions(index.sizes))
    indices[dim] = Index.of(symbol)
    return gather_at(ctx, x, index.sizes, indices, [(symbol, position(index, x.sizes[dim]))])


@lowering(aten.embedding.default)
def embedding(
    ctx: Context, weight: Tensor, indices: Tensor, padding_idx: Any = -1, scale: bool = False, sparse: bool = False
) -> Tensor | Declined:
    sizes = (*indices.sizes, weight.sizes[1])
    where_ = positions(sizes)
    chosen = reindex(indices, sizes, where_[:-1])
    symbol = place(0, weight.sizes[0])
    return gather_at(ctx, weight, sizes, [Index.of(symbol), where_[-1]], [(symbol, position(chosen, weight.sizes[0]))])


def _spread(
    ctx: Context, x: Tensor, indices: Sequence[Tensor | None]
) -> tuple[tuple[Index, ...], list[Index], list[tuple[Symbol, Expr]]] | Declined:
    """The shape that ``x[indices]`` has, and where in ``x`` each of its elements lies."""
    if any(index is not None and index.dtype not in INTEGERS[:2] for index in indices) or x.dtype.is_complex:
        return Declined("a mask as index: how many elements there are is known only at run time")
    picked = [dim for dim, index in enumerate(indices) if index is not None]
    shape = broadcast_sizes(index.sizes for index in indices if index is not None)
    together = picked == list(range(picked[0], picked[-1] + 1))
    lead = picked[0] if together else 0
    rest = [dim for dim in range(x.ndim) if dim not in picked]
    before, after = rest[:lead], rest[lead:]
    sizes = (*(x.sizes[d] for d in before), *shape, *(x.sizes[d] for d in after))
    where_ = positions(sizes)
    middle = where_[lead : lead + len(shape)]
    found: dict[int, Index] = dict(zip(before, where_, strict=False))
    found.update(zip(after, where_[lead + len(shape) :], strict=True))
    places = []
    for order, dim in enumerate(picked):
        index = indices[dim]
        assert index is not None
        spread = reindex(broadcast_to(index, shape), sizes, middle)
        symbol = place(order, x.sizes[dim])
        places.append((symbol, position(spread, x.sizes[dim], "wrapped")))
        found[dim] = Index.of(symbol)
    return sizes, [found[dim] for dim in range(x.ndim)], places


@lowering(aten.index.Tensor)
def index_tensor(ctx: Context, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | Declined:
    spread = _spread(ctx, x, indices)
    return spread if isinstance(spread, Declined) else gather_at(ctx, x, *spread)


# -- writing ----------------------------------------------------------------------------------------------------------


def copied(ctx: Context, x: Tensor) -> Tensor:
    """A buffer of its own with the same contents, to be written to."""
    whole = load(ctx.buffer(x.sizes, x.dtype, x.device))
    ctx.store(whole, x.expr)
    return whole


ADDABLE = (torch.float32, torch.float64, torch.int32, torch.int64)


def _scatter(
    ctx: Context, x: Tensor, domain: tuple[Index, ...], indices: Sequence[Index],
    places: Sequence[tuple[Symbol, Expr]], value: Expr, accumulate: bool,
) -> Tensor | Declined:  # fmt: skip
    if accumulate and x.dtype not in ADDABLE:
        return Declined(f"adding at places read from a tensor in {x.dtype}")
    if _unchecked(places):
        return UNCHECKED
    target = copied(ctx, x)
    window = reindex(target, domain, indices)
    ctx.store(window, value, "add" if accumulate else "set", tuple(places), domain=domain)
    return target


@lowering(aten.index_put.default)
def index_put(
    ctx: Context, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor | Declined:
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == torch.bool and not values.ndim:
        if accumulate or x.dtype.is_complex:
            return Declined("adding where a mask holds")
        mask = indices[0]
        where_ = positions(x.sizes)
        spread = reindex(mask, x.sizes, where_[: mask.ndim])
        filler = Value(convert(values, x.dtype).expr)
        return pure(x, where(Value(spread.expr), filler, Value(x.expr)).expr)
    spread_ = _spread(ctx, x, indices)
    if isinstance(spread_, Declined):
        return spread_
    if not accumulate:
        return Declined("which of several values for one place is kept depends on the order")
    sizes, where_list, places = spread_
    value = broadcast_to(convert(values, x.dtype), sizes)
    return _scatter(ctx, x, sizes, where_list, places, value.expr, accumulate)


@lowering(aten.scatter_add.default)
def scatter_add(ctx: Context, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor | Declined:
    if not x.ndim or not x.ndim == index.ndim == src.ndim:
        return Declined("a 0-d tensor")
    dim = wrap(dim, x.ndim)
    symbol = place(0, x.sizes[dim])
    indices = list(positions(index.sizes))
    indices[dim] = Index.of(symbol)
    source = at(src, positions(index.sizes))
    return _scatter(ctx, x, index.sizes, indices, [(symbol, position(index, x.sizes[dim]))], source, True)


@lowering(aten.scatter.value, aten.scatter.src)
def scatter(ctx: Context, x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor | Declined:
    """One place per row: every element asks whether it is the one."""
    if not x.ndim or x.ndim != index.ndim or x.dtype.is_complex or isinstance(value, complex):
        return Declined("a 0-d tensor or complex numbers")
    dim = wrap(dim, x.ndim)
    rows = [size for d, size in enumerate(x.sizes) if d != dim]
    if index.sizes[dim] != ONE or rows != [size for d, size in enumerate(index.sizes) if d != dim]:
        return Declined("which of several values for one place is kept depends on the order")
    here = as_index_value(positions(x.sizes)[dim], torch.int64)
    chosen = equal(Value(position(broadcast_to(index, x.sizes), x.sizes[dim])), Value(here))
    if isinstance(value, Tensor):
        if value.sizes != index.sizes:
            return Declined("a source that is larger than the index")
        new = Value(broadcast_to(convert(value, x.dtype), x.sizes).expr)
    else:
        new = Value(number(value, compute_dtype(x.dtype)))
    return pure(x, where(chosen, new, Value(x.expr)).expr)


@lowering(aten.embedding_dense_backward.default)
def embedding_backward(
    ctx: Context, grad: Tensor, indices: Tensor, num_weights: Any, padding_idx: Any, scale_grad_by_freq: bool
) -> Tensor | Declined:
    if scale_grad_by_freq or grad.dtype not in ADDABLE:
        return Declined("gradients scaled by frequency, or half precision sums")
    sizes = (ctx.sizes.index(num_weights), grad.sizes[-1])
    zeros = Tensor(sizes, grad.dtype, grad.device, Const(0.0, compute_dtype(grad.dtype)))
    where_ = positions(grad.sizes)
    chosen = reindex(indices, grad.sizes, where_[:-1])
    symbol = place(0, sizes[0])
    value = Value(grad.expr)
    if isinstance(padding_idx, int) and padding_idx >= 0:
        value = where(equal(Value(cast(chosen.expr, torch.int64)), padding_idx), 0.0, value)
    return _scatter(
        ctx, zeros, grad.sizes, [Index.of(symbol), where_[-1]], [(symbol, position(chosen, sizes[0]))], value.expr, True
    )
