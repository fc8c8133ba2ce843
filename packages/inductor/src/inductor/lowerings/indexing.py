"""Gathers: reads at positions that come from tensors.

A position read from a tensor becomes a symbol of the index, bound to the expression that computes it.  The operator
``wrapped`` counts from the end where the position is negative, as indexing does; ``within`` does not, as gather and
embedding do not.  Both make the call raise IndexError where the position is outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from inductor import costs
from inductor.ir.expr import Expr, IndexValue, Masked, apply, cast, loads, walk
from inductor.ir.index import Index, Symbol
from inductor.lowerings.context import Context
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.sizes import numel
from inductor.lowerings.values import (
    Tensor,
    as_index_value,
    at,
    bind,
    bindable,
    broadcast_sizes,
    broadcast_to,
    cost,
    number,
    positions,
    reindex,
    unread,
)
from inductor.lowerings.views import wrap
from inductor.torch_versions import aten

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def position(index: Tensor, size: Index, op: str = "within") -> Expr:
    """The element of ``index`` as a place on an axis of ``size``; ``wrapped`` lets it count from the end."""
    return apply(op, cast(index.expr, torch.int64), as_index_value(size, torch.int64))


def place(order: int, size: Index) -> Symbol:
    """The symbol that stands for the ``order``-th position read from a tensor."""
    return Symbol(f"p{order}", size)


def decline_empty_axis(places: Iterable[tuple[Symbol, Expr]]) -> Declined | None:
    """The refusal of an axis that may have no elements: there is no element to read in the place of one outside until
    the call raises."""
    for symbol, _ in places:
        assert symbol.size is not None
        if not (symbol.size - 1).is_nonnegative():
            return Declined(f"positions on an axis of {symbol.size} elements, which may be none")
    return None


def gather_at(
    ctx: Context, x: Tensor, sizes: tuple[Index, ...], indices: Sequence[Index], places: Sequence[tuple[Symbol, Expr]]
) -> Tensor | Declined:
    """A tensor of ``sizes`` whose elements are ``x`` at ``indices``, which mention symbols read from tensors."""
    if declined := decline_empty_axis(places):
        return declined
    symbols = [symbol for symbol, _ in places]
    most = _most_inlined(x, sizes)
    # A costly element would be computed again for every position that picks it.
    if cost(x.expr, most + 1) > most or _has_places(x) or not bindable(x.expr, symbols):
        x = ctx.realize(x)
    element = at(x, indices)
    if unread(element, symbols) and not any(loads(element)):
        element = at(ctx.realize(x), indices)  # numbers take no positions, which have to be checked
    return Tensor(sizes, x.dtype, x.device, bind(element, places))


def _most_inlined(x: Tensor, sizes: tuple[Index, ...]) -> int:
    """The largest cost of an element at which computing the picked elements beats storing all of ``x`` first: high,
    where few are picked."""
    everything, picked = x.numel.as_int(), numel(sizes).as_int()
    return (
        costs.ANY.picked_inline
        if everything is None or not picked
        else max(costs.ANY.picked_inline, everything // picked)
    )


def _has_places(x: Tensor) -> bool:
    """True if the expression reads at positions itself, or depends on them otherwise: not to be nested."""
    return any(load.bindings for load in loads(x.expr)) or any(
        isinstance(node, Masked | IndexValue) for node in walk(x.expr)
    )


@lowering(aten.index_select.default)
def index_select(ctx: Context, x: Tensor, dim: int, index: Tensor) -> Tensor | Declined:
    if not x.ndim or x.dtype.is_complex or index.ndim != 1:
        return Declined("a 0-d tensor, complex numbers or positions that are no vector")
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
    ctx: Context, weight: Tensor, indices: Tensor, padding_idx: object = -1, scale: bool = False, sparse: bool = False
) -> Tensor | Declined:
    if indices.dtype not in (torch.int32, torch.int64):
        return Declined("positions that are no integers, which torch's kernel refuses")
    sizes = (*indices.sizes, weight.sizes[1])
    where_ = positions(sizes)
    chosen = reindex(indices, sizes, where_[:-1])
    symbol = place(0, weight.sizes[0])
    return gather_at(ctx, weight, sizes, [Index.of(symbol), where_[-1]], [(symbol, position(chosen, weight.sizes[0]))])


def spread(
    ctx: Context, x: Tensor, indices: Sequence[Tensor | None]
) -> tuple[tuple[Index, ...], list[Index], list[tuple[Symbol, Expr]]] | Declined:
    """The shape of ``x[indices]``, the index in ``x`` of each of its elements, and the positions bound in it."""
    if any(index is not None and index.dtype not in INTEGERS[:2] for index in indices) or x.dtype.is_complex:
        return Declined("a mask as index: how many elements there are is known only at run time")
    picked = [dim for dim, index in enumerate(indices) if index is not None]
    shape = broadcast_sizes(index.sizes for index in indices if index is not None)
    together = picked == list(range(picked[0], picked[-1] + 1))
    # As in NumPy: indexed dimensions that stand together are replaced in place, others move to the front.
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
        chosen = reindex(broadcast_to(index, shape), sizes, middle)
        symbol = place(order, x.sizes[dim])
        places.append((symbol, position(chosen, x.sizes[dim], "wrapped")))
        found[dim] = Index.of(symbol)
    return sizes, [found[dim] for dim in range(x.ndim)], places


@lowering(aten.index.Tensor)
def index_tensor(ctx: Context, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | Declined:
    laid = spread(ctx, x, indices)
    return laid if isinstance(laid, Declined) else gather_at(ctx, x, *laid)


# -- positions that loop variables tell --------------------------------------------------------------------------------


def _reflected(position: Expr, last: Expr) -> Expr:
    """A position mirrored at both ends, which are not repeated."""
    return apply("sub", last, apply("abs", apply("sub", last, apply("abs", position))))


def _clamped(position: Expr, last: Expr) -> Expr:
    return apply("minimum", last, apply("maximum", number(0, torch.int64), position))


def _padding(inside: Callable[[Expr, Expr], Expr]) -> Callable[..., Tensor | Declined]:
    """The lowering of padding by elements of the tensor itself, of all its dimensions at once."""

    def lower(ctx: Context, x: Tensor, pad: Sequence[object]) -> Tensor | Declined:
        if x.dtype.is_complex:
            return Declined("complex numbers")
        sizes, before = list(x.sizes), dict[int, Index]()
        # The list begins with the last dimension: (left, right, top, bottom, ...); negative numbers cut off.
        for k in range(len(pad) // 2):
            dim = x.ndim - 1 - k
            before[dim], after = ctx.sizes.index(pad[2 * k]), ctx.sizes.index(pad[2 * k + 1])
            sizes[dim] = x.sizes[dim] + before[dim] + after
        indices, places = list(positions(sizes)), list[tuple[Symbol, Expr]]()
        for dim, offset in before.items():
            symbol, last = place(dim, x.sizes[dim]), as_index_value(x.sizes[dim] - 1, torch.int64)
            places.append((symbol, inside(as_index_value(indices[dim] - offset, torch.int64), last)))
            indices[dim] = Index.of(symbol)
        return gather_at(ctx, x, tuple(sizes), indices, places)

    return lower


lowering(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)(
    _padding(_reflected)
)
lowering(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)(
    _padding(_clamped)
)
