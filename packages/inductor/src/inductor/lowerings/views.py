"""Views: the positions of a result mapped to those of its operand.  Nothing is computed and nothing copied.

A view is a substitution in the expression of one element (``values.reindex``): ``x.t()[i0, i1]`` is ``x[i1, i0]``.  So
views of values that were never stored are free too.  A tensor that keeps its ``base`` remains a window on memory,
whose strides ``values.strided`` reads back from the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from inductor.ir.expr import Load, cast
from inductor.ir.index import ONE, ZERO, Index
from inductor.lowerings.context import Context
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.sizes import contiguous_strides, numel
from inductor.lowerings.values import Tensor, broadcast_to, compute_dtype, positions, pure, reindex, strided
from inductor.rewrites.layouts import CHANNELS_INNERMOST
from inductor.torch_versions import aten

Size = Any
"""An int, an ``Index``, or None for a bound that was not given."""


def wrap(dim: int, ndim: int) -> int:
    """A dimension, counted from the front."""
    return dim + max(ndim, 1) if dim < 0 else dim


# -- reshaping --------------------------------------------------------------------------------------------------------


def reshape(tensor: Tensor, sizes: Sequence[Index]) -> Tensor:
    """The elements in row-major order under other sizes."""
    new = tuple(sizes)
    if new == tensor.sizes:
        return tensor
    where = positions(new)
    old: list[Index] = []
    # Division is what makes an index dear and hides its strides: each run of dimensions is flattened by itself, and one
    # that stays as it is needs none.
    #   (2, 3, 4) -> (6, 4): runs ([0, 1], [0]) and ([2], [1]); i0 becomes (i0 // 3, i0 % 3) and i1 stays
    for old_dims, new_dims in _groups(tensor.sizes, new):
        steps = contiguous_strides(tuple(new[d] for d in new_dims))
        flat = sum((where[d] * step for d, step in zip(new_dims, steps, strict=True)), ZERO)
        old += _unflatten(flat, [tensor.sizes[d] for d in old_dims])
    return reindex(tensor, new, old)


def _unflatten(flat: Index, sizes: list[Index]) -> list[Index]:
    """The index along each of ``sizes`` of the ``flat``-th element."""
    steps = contiguous_strides(tuple(sizes))
    return [
        # The outermost quotient is below its size already.
        ZERO if size in (ONE, ZERO) else (flat // step if k == 0 else (flat // step) % size)
        for k, (size, step) in enumerate(zip(sizes, steps, strict=True))
    ]


def _groups(old: Sequence[Index], new: Sequence[Index]) -> list[tuple[list[int], list[int]]]:
    """Runs of old and new dimensions with equal numbers of elements, as short as possible."""
    groups: list[tuple[list[int], list[int]]] = []
    left, right = 0, 0
    while left < len(old) or right < len(new):
        start = (left, right)
        # Each run begins with one dimension of either side, and the side with fewer elements takes one more until they
        # agree.
        size_left, size_right = ONE, ONE
        if left < len(old):
            size_left, left = old[left], left + 1
        if right < len(new):
            size_right, right = new[right], right + 1
        while size_left != size_right:
            grow_left = right >= len(new) or (left < len(old) and _is_smaller(size_left, size_right))
            if grow_left and left < len(old):
                size_left, left = size_left * old[left], left + 1
            elif right < len(new):
                size_right, right = size_right * new[right], right + 1
            else:
                # Data-dependent sizes: nothing is known of where runs end, so all of it is one.
                return [(list(range(len(old))), list(range(len(new))))]
        groups.append((list(range(start[0], left)), list(range(start[1], right))))
    return groups


def _is_smaller(left: Index, right: Index) -> bool:
    """True if the left size is smaller, as far as that can be told."""
    a, b = left.as_int(), right.as_int()
    if a is not None and b is not None:
        return a < b
    # Of symbolic sizes only products can be compared: that of fewer factors is taken for the smaller one.  A wrong
    # guess gives longer runs, never wrong ones.
    return len(left.terms[0][0]) < len(right.terms[0][0]) if left.terms and right.terms else bool(right.terms)


@lowering(aten.view.default, aten._unsafe_view.default, aten.reshape.default, of_any_size=True)
def view(ctx: Context, x: Tensor, size: Sequence[Size]) -> Tensor | Declined:
    sizes = [ctx.sizes.index(value) for value in size]
    if (hole := next((k for k, value in enumerate(sizes) if value == -1), None)) is not None:
        known = numel(value for k, value in enumerate(sizes) if k != hole)
        # Of no elements any size would do, and there is nothing to divide by.
        sizes[hole] = x.numel // known if known != 0 else ZERO
    if numel(sizes) != x.numel and (numel(sizes).unbounded or x.numel.unbounded):
        return Declined("a view of a data-dependent number of elements")
    seen = _as_traced(ctx, x, sizes)
    return reshape(x, sizes) if seen is None else seen


def _as_traced(ctx: Context, x: Tensor, sizes: Sequence[Index]) -> Tensor | None:
    """The window that the tracer saw a view to be; with its strides no index needs a division."""
    node, layout = ctx.node, strided(x)
    if node is None or node.target is not aten.view.default or layout is None or x.base is None:
        return None
    # Only for ``view`` itself, which eager grants only where strides can say it; ``reshape`` may have copied.  What was
    # laid out anew since it was traced has views that are told as they were before.
    if CHANNELS_INNERMOST in node.args[0].meta:
        return None
    source, result = node.args[0].meta["val"], node.meta["val"]
    for size, ours, theirs in zip(x.sizes, layout[0], ctx.sizes.strides(source.stride()), strict=True):
        # Our buffer lies in another order than the tracer's tensor: its strides would lead elsewhere.
        if size != ONE and ours != theirs:
            return None
    return window_on(ctx, x.base, tuple(sizes), ctx.sizes.strides(result.stride()), layout[1], x.dtype)


def window_on(
    ctx: Context, base: str, sizes: tuple[Index, ...], strides: tuple[Index, ...], offset: Index, dtype: torch.dtype
) -> Tensor:
    """A strided window on a buffer."""
    # As ``values.load`` does it for a whole buffer.
    index = offset
    for place, step in zip(positions(sizes), strides, strict=True):
        index = index + place * step
    element = cast(Load(base, index, dtype), compute_dtype(dtype))
    return Tensor(sizes, dtype, ctx.buffers[base].device, element, base)


@lowering(aten.flatten.using_ints)
def flatten(ctx: Context, x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    if not x.ndim:
        return reshape(x, (ONE,))
    start, end = wrap(start_dim, x.ndim), wrap(end_dim, x.ndim)
    return reshape(x, (*x.sizes[:start], numel(x.sizes[start : end + 1]), *x.sizes[end + 1 :]))


@lowering(aten.unsqueeze.default)
def unsqueeze(ctx: Context, x: Tensor, dim: int) -> Tensor:
    dim = wrap(dim, x.ndim + 1)
    sizes = (*x.sizes[:dim], ONE, *x.sizes[dim:])
    where = positions(sizes)
    return reindex(x, sizes, where[:dim] + where[dim + 1 :])


def drop(x: Tensor, dims: Sequence[int]) -> Tensor:
    """The tensor without those of the dimensions that have size 1."""
    # Those of another size stay, as ``squeeze`` leaves them.
    gone = {dim for dim in dims if x.sizes[dim] == ONE}
    kept = [dim for dim in range(x.ndim) if dim not in gone]
    sizes = tuple(x.sizes[dim] for dim in kept)
    where = dict(zip(kept, positions(sizes), strict=True))
    return reindex(x, sizes, [where.get(dim, ZERO) for dim in range(x.ndim)])


@lowering(aten.squeeze.default)
def squeeze(ctx: Context, x: Tensor) -> Tensor:
    return drop(x, range(x.ndim))


@lowering(aten.squeeze.dim)
def squeeze_dim(ctx: Context, x: Tensor, dim: int) -> Tensor:
    return drop(x, [wrap(dim, x.ndim)]) if x.ndim else x


@lowering(aten.squeeze.dims)
def squeeze_dims(ctx: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    return drop(x, [wrap(dim, x.ndim) for dim in dims]) if x.ndim else x


# -- order of dimensions ----------------------------------------------------------------------------------------------


def permuted(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Dimension ``k`` of the result is ``dims[k]`` of ``x``."""
    order = [wrap(dim, x.ndim) for dim in dims]
    sizes = tuple(x.sizes[dim] for dim in order)
    where = positions(sizes)
    # ``reindex`` asks for each old dimension which new one moves along it: the inverse of ``order``.
    return reindex(x, sizes, [where[order.index(dim)] for dim in range(x.ndim)])


@lowering(aten.permute.default)
def permute(ctx: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    return permuted(x, dims)


@lowering(aten.transpose.int)
def transpose(ctx: Context, x: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(x.ndim))
    if x.ndim:
        a, b = wrap(dim0, x.ndim), wrap(dim1, x.ndim)
        order[a], order[b] = order[b], order[a]
    return permuted(x, order)


@lowering(aten.t.default)
def t(ctx: Context, x: Tensor) -> Tensor:
    return permuted(x, list(range(x.ndim))[::-1])


@lowering(aten.flip.default)
def flip(ctx: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    reversed_dims = {wrap(dim, x.ndim) for dim in dims}
    where = positions(x.sizes)
    flipped = [
        size - 1 - at if dim in reversed_dims and size != ONE else at
        for dim, (size, at) in enumerate(zip(x.sizes, where, strict=True))
    ]
    moved = reindex(x, x.sizes, flipped)
    # Eager copies here: no view of the same memory, whatever its strides would be.
    return pure(moved, moved.expr)


# -- windows ----------------------------------------------------------------------------------------------------------


@lowering(aten.expand.default, of_any_size=True)
def expand(ctx: Context, x: Tensor, size: Sequence[Size], implicit: bool = False) -> Tensor | Declined:
    sizes = [ctx.sizes.index(value) for value in size]
    lead = len(sizes) - x.ndim
    sizes = [x.sizes[dim - lead] if value == -1 else value for dim, value in enumerate(sizes)]
    if any(old not in (ONE, new) and new.unbounded for old, new in zip(x.sizes, sizes[lead:], strict=True)):
        return Declined("an expansion to a data-dependent size")
    return broadcast_to(x, sizes)


def window(x: Tensor, dim: int, start: Index, length: Index, step: Index = ONE) -> Tensor:
    """``length`` elements along ``dim`` from ``start`` on."""
    sizes = (*x.sizes[:dim], length, *x.sizes[dim + 1 :])
    where = list(positions(sizes))
    where[dim] = start + where[dim] * step
    return reindex(x, sizes, where)


@lowering(aten.slice.Tensor)
def slice_(
    ctx: Context, x: Tensor, dim: int = 0, start: Size = None, end: Size = None, step: Size = 1
) -> Tensor | Declined:
    dim = wrap(dim, x.ndim)
    size = x.sizes[dim]
    first = _clamped(ctx.sizes.index(0 if start is None else start), size)
    last = size if end is None else _clamped(ctx.sizes.index(end), size)
    stride = ctx.sizes.index(step)
    if first is None or last is None:
        return Declined("a slice whose bounds cannot be compared")
    if (first - last).is_nonnegative():
        return window(x, dim, first, ZERO, stride)
    if not (last - first).is_nonnegative():
        return Declined("a slice whose bounds may be in the wrong order")
    # A part of a step counts as one: the first element of it is inside.
    return window(x, dim, first, (last - first + stride - 1) // stride, stride)


def _clamped(position: Index, size: Index) -> Index | None:
    """``position`` counted from the front and within 0 and ``size``; None where ranges do not say."""
    value, extent = position.as_int(), size.as_int()
    if value is not None and extent is not None:
        return Index.of(min(max(value + extent if value < 0 else value, 0), extent))
    # So torch writes a bound that was not given.
    if value is not None and value >= (1 << 62):
        return size
    if value is not None and value < 0:
        position = position + size
    # From here on bounds are symbolic: only what their ranges prove is used.
    if not position.is_nonnegative():
        return None
    if position.is_below(size + 1):
        return position
    # Beyond the end for certain: the end.
    return size if size.is_below(position + 1) else None


@lowering(aten.select.int, of_any_size=True)
def select(ctx: Context, x: Tensor, dim: int, index: Size) -> Tensor | Declined:
    dim = wrap(dim, x.ndim)
    at = from_end(ctx.sizes.index(index), x.sizes[dim])
    # Of a position with a range the tracer has asked whether it is inside; one without may be anywhere.
    if at is None or ((at.unbounded or x.sizes[dim].unbounded) and not is_inside(at, x.sizes[dim])):
        return Declined("a data-dependent position")
    return _selected(x, dim, at)


def from_end(at: Index, size: Index) -> Index | None:
    """A position as it counts from the beginning; None where it is not known from which end it counts."""
    if at.is_nonnegative():
        return at
    return at + size if (-1 - at).is_nonnegative() else None


def is_inside(at: Index, size: Index) -> bool:
    """True if the position is known to be one of an element."""
    return at.is_nonnegative() and at.is_below(size)


def _selected(x: Tensor, dim: int, at: Index) -> Tensor:
    sizes = x.sizes[:dim] + x.sizes[dim + 1 :]
    where = positions(sizes)
    return reindex(x, sizes, (*where[:dim], at, *where[dim:]))


@lowering(aten.narrow.default)
def narrow(ctx: Context, x: Tensor, dim: int, start: Size, length: Size) -> Tensor:
    return window(x, wrap(dim, x.ndim), ctx.sizes.index(start), ctx.sizes.index(length))


@lowering(aten.split.Tensor, aten.split_with_sizes.default)
def split(ctx: Context, x: Tensor, sizes: object, dim: int = 0) -> list[Tensor] | Declined:
    dim = wrap(dim, x.ndim)
    if not isinstance(sizes, list | tuple):
        total, step = x.sizes[dim].as_int(), ctx.sizes.index(sizes).as_int()
        if total is None or not step:
            return Declined("a split into a number of parts known only at run time")
        # The last part may be shorter; of nothing there is one part, which is empty.
        sizes = [min(step, total - start) for start in range(0, total, step)] or [0]
    lengths = ctx.sizes.indices(sizes)
    parts, start = [], ZERO
    for length in lengths:
        parts.append(window(x, dim, start, length))
        start = start + length
    return parts


@lowering(aten.unbind.int)
def unbind(ctx: Context, x: Tensor, dim: int = 0) -> list[Tensor] | Declined:
    count = x.sizes[wrap(dim, x.ndim)].as_int()
    if count is None:
        return Declined("a split into a number of parts known only at run time")
    return [_selected(x, wrap(dim, x.ndim), Index.of(k)) for k in range(count)]


@lowering(aten.diagonal.default)
def diagonal(ctx: Context, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor | Declined:
    a, b = wrap(dim1, x.ndim), wrap(dim2, x.ndim)
    rows, columns = x.sizes[a].as_int(), x.sizes[b].as_int()
    if rows is None or columns is None:
        return Declined("a diagonal of sizes known only at run time")
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    kept = [dim for dim in range(x.ndim) if dim not in (a, b)]
    sizes = (*(x.sizes[dim] for dim in kept), Index.of(length))
    where = positions(sizes)
    old = dict(zip(kept, where, strict=False))
    # Along the new last dimension both coordinates move by one; the offset shifts the one that does not begin at 0.
    old[a], old[b] = where[-1] + max(-offset, 0), where[-1] + max(offset, 0)
    return reindex(x, sizes, [old[dim] for dim in range(x.ndim)])


@lowering(aten.as_strided.default)
def as_strided(
    ctx: Context, x: Tensor, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size = None
) -> Tensor | Declined:
    source = ctx.node.args[0].meta["val"] if ctx.node is not None else None
    # A window needs memory to look at: what was only an expression is computed into some.
    if x.base is None and storage_offset in (None, 0):
        x = ctx.realize(x)
    if x.base is None or source is None:
        return Declined("a window on memory that is not in this graph")
    base = ctx.buffers[x.base]
    sizes, strides = ctx.sizes.indices(size), ctx.sizes.indices(stride)
    offset = _offset_from_base(ctx, x, source, storage_offset)
    if offset is None or not sizes:
        return Declined("a window at an offset that is not known")
    if base.dtype != x.dtype:
        return Declined("a window on memory of another dtype")
    last = sum(((length - 1) * step for length, step in zip(sizes, strides, strict=True)), offset)
    # Eager checks a window against memory when it is made; a kernel would read whatever comes behind.
    if not last.is_below(numel(base.sizes)):
        return Declined("a window that may end outside of the memory")
    return window_on(ctx, base.name, sizes, strides, offset, x.dtype)


def _offset_from_base(ctx: Context, x: Tensor, source: torch.Tensor, wanted: Size) -> Index | None:
    """The offset of the window, in elements from the start of the buffer that ``x`` is a window on."""
    layout = strided(x)
    if layout is None:
        return None
    if wanted is None:
        return layout[1]
    # Both offsets are the tracer's, counted from its storage; the difference holds for our buffer as well.
    return ctx.sizes.index(wanted) - ctx.sizes.index(source.storage_offset()) + layout[1]


@lowering(aten.alias.default, aten.detach.default, aten.lift_fresh.default)
def alias(ctx: Context, x: Tensor) -> Tensor:
    return x


@lowering(aten.unfold.default)
def unfold(ctx: Context, x: Tensor, dim: int, size: int, step: int) -> Tensor | Declined:
    if not x.ndim:
        return Declined("a window on a 0-d tensor")
    dim = wrap(dim, x.ndim)
    count = (x.sizes[dim] - size) // step + 1
    sizes = (*x.sizes[:dim], count, *x.sizes[dim + 1 :], Index.of(size))
    where = positions(sizes)
    # Window ``k`` begins at ``k * step``; the position within it is the new last dimension.
    return reindex(x, sizes, (*where[:dim], where[dim] * step + where[-1], *where[dim + 1 : -1]))
