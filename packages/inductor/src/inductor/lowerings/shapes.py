"""Tensors composed of others: concatenation, stacking, padding, repeating, parts replaced.

Most are index arithmetic: an element of the result asks, by its position, which operand holds it and where.  Nothing
is copied until a user needs memory.  What must not be read outside of its operand is ``masked``, whose body
reads nothing elsewhere; a plain ``where`` would read out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from inductor import costs
from inductor.ir.expr import Const
from inductor.ir.index import ONE, ZERO, Index
from inductor.lowerings.algebra import Value, masked, where
from inductor.lowerings.context import Context, is_dense
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.values import (
    Tensor,
    at,
    compare,
    convert,
    cost,
    load,
    positions,
    pure,
    reindex,
    strided,
)
from inductor.lowerings.views import from_end, is_inside, reshape, unsqueeze, window, wrap
from inductor.torch_versions import aten

_OTHER_DIMENSIONS = "what has other dimensions than it replaces, which eager refuses"
"""The reason for leaving a source of another rank to torch."""


@lowering(aten.cat.default)
def cat(ctx: Context, tensors: Sequence[Tensor], dim: int = 0) -> Tensor | Declined:
    # Eager skips vectors without elements whatever the others' ranks are.
    parts = [tensor for tensor in tensors if tensor.sizes != (ZERO,)] or [tensors[0]]
    if any(part.dtype.is_complex for part in parts) or len({part.device for part in parts}) > 1:
        return Declined("complex numbers, or parts on several devices")
    # Over all tensors, those that are skipped too: they take part in promotion.
    dtype = tensors[0].dtype
    for part in tensors[1:]:
        dtype = torch.promote_types(dtype, part.dtype)
    dim = wrap(dim, parts[0].ndim)
    parts = [convert(part, dtype) for part in parts]
    total = sum((part.sizes[dim] for part in parts), ZERO)
    sizes = (*parts[0].sizes[:dim], total, *parts[0].sizes[dim + 1 :])
    if len(parts) == 1:
        return pure(parts[0], parts[0].expr)
    # Few cheap parts are chosen among where they are read, so that the result may be fused into its users.  Else each
    # part is a nest that writes its own window: a choice among many would make every element ask about all of them.
    if len(parts) <= costs.ANY.inline_parts and sum(cost(part.expr, 64) for part in parts) <= 64:
        return _chosen(parts, sizes, dim)
    return _written(ctx, parts, sizes, dim)


def _chosen(parts: Sequence[Tensor], sizes: tuple[Index, ...], dim: int) -> Tensor:
    """The concatenation as an expression that chooses the part for each element."""
    where_ = list(positions(sizes))
    place, start = where_[dim], sum((part.sizes[dim] for part in parts), ZERO)
    result: Value | None = None
    # From the last part to the first, so that the first condition asked is the outermost ``where``:
    #   i < 2 ? a[i] : (i < 5 ? b[i - 2] : c[i - 5])
    # The last part needs no question, as what is not before it is in it.
    for part in reversed(parts):
        start = start - part.sizes[dim]
        local = [*where_[:dim], place - start if part.sizes[dim] != ONE else ZERO, *where_[dim + 1 :]]
        # The mask asks for both ends all the same: vectors compute parts that are not chosen, too, and a part must not
        # be read outside of its memory.
        inside = Value(compare("ge", place, start)) & Value(compare("lt", place, start + part.sizes[dim]))
        body = masked(inside, Value(at(part, local)), 0)
        result = body if result is None else where(Value(compare("lt", place, start + part.sizes[dim])), body, result)
    assert result is not None
    return Tensor(sizes, parts[0].dtype, parts[0].device, result.expr)


def _written(ctx: Context, parts: Sequence[Tensor], sizes: tuple[Index, ...], dim: int) -> Tensor:
    """The concatenation as a buffer into whose windows the parts are stored one after the other; what they are computed
    from may be fused into them."""
    whole = load(ctx.buffer(sizes, parts[0].dtype, parts[0].device))
    start = ZERO
    for part in parts:
        if part.sizes[dim] != 0:
            ctx.store(window(whole, dim, start, part.sizes[dim]), part.expr)
        start = start + part.sizes[dim]
    return whole


@lowering(aten.stack.default)
def stack(ctx: Context, tensors: Sequence[Tensor], dim: int = 0) -> Tensor | Declined:
    dim = wrap(dim, tensors[0].ndim + 1)
    return cat(ctx, [unsqueeze(ctx, tensor, dim) for tensor in tensors], dim)


@lowering(aten.constant_pad_nd.default)
def constant_pad(ctx: Context, x: Tensor, pad: Sequence[Any], value: Any = 0) -> Tensor | Declined:
    if x.dtype.is_complex:
        return Declined("complex numbers")
    sizes, inside = list(x.sizes), Value(Const(True, torch.bool))
    before: dict[int, Index] = {}
    # The list begins with the last dimension: (left, right, top, bottom, ...); negative numbers cut off.
    for k in range(len(pad) // 2):
        dim = x.ndim - 1 - k
        before[dim] = ctx.sizes.index(pad[2 * k])
        sizes[dim] = x.sizes[dim] + before[dim] + ctx.sizes.index(pad[2 * k + 1])
    place = list(positions(sizes))
    for dim, offset in before.items():
        place[dim] = place[dim] - offset
        for check in (compare("ge", place[dim], ZERO), compare("lt", place[dim], x.sizes[dim])):
            # A check that is no question at all (no padding on that side) would only make the condition longer.
            if not isinstance(check, Const):
                inside = Value(check) if isinstance(inside.expr, Const) else inside & Value(check)
        # A dimension of one element has no symbol: its index is 0 by convention (``lowerings.values``).
        if x.sizes[dim] == ONE:
            place[dim] = ZERO
    body = masked(inside, Value(at(x, place)), value)
    return Tensor(tuple(sizes), x.dtype, x.device, body.expr)


@lowering(aten.repeat.default)
def repeat(ctx: Context, x: Tensor, repeats: Sequence[object]) -> Tensor:
    times = ctx.sizes.indices(repeats)
    # New dimensions stand in front; sizes of 1 need no remainder, as everything is their one element.
    whole = (ONE,) * (len(times) - x.ndim) + x.sizes
    x = reshape(x, whole)
    sizes = tuple(size * time for size, time in zip(whole, times, strict=True))
    place = [
        ZERO if size in (ONE, ZERO) else (at_ if time == ONE else at_ % size)
        for at_, size, time in zip(positions(sizes), whole, times, strict=True)
    ]
    copy = reindex(x, sizes, place)
    return pure(copy, copy.expr)


@lowering(aten.roll.default)
def roll(ctx: Context, x: Tensor, shifts: Sequence[object], dims: Sequence[int] = ()) -> Tensor | Declined:
    if not dims:
        if not x.ndim:
            return pure(x, x.expr)
        # Without dimensions the elements are rolled in row-major order, and take their shape again.
        rolled = roll(ctx, reshape(x, (x.numel,)), shifts, [0])
        return rolled if isinstance(rolled, Declined) else reshape(rolled, x.sizes)
    place = list(positions(x.sizes))
    for shift, dim in zip(shifts, dims, strict=True):
        d = wrap(dim, x.ndim)
        if x.sizes[d] not in (ONE, ZERO):
            # Element i comes from i - shift; the remainder has the sign of the divisor, so that shifts may be negative.
            place[d] = (place[d] - ctx.sizes.index(shift)) % x.sizes[d]
    moved = reindex(x, x.sizes, place)
    return pure(moved, moved.expr)


# -- parts of a tensor replaced ---------------------------------------------------------------------------------------


def _is_returned_with_holes(ctx: Context, x: Tensor) -> bool:
    """True if a copy of the memory around a window is returned: eager's result lies as the window, holes included.

    What was computed has nothing in its holes: the result gets them with its memory.
    """
    node = ctx.node
    if node is None or strided(x) is None or not any(user.op == "output" for user in node.users):
        return False
    strides = ctx.strides_of(node)
    return strides is not None and not is_dense(ctx.sizes.indices(node.meta["val"].shape), strides)


_HOLES = "a copy of the memory around a window, which is returned"
"""The reason for leaving a result with gaps in its memory to torch."""


@lowering(aten.slice_scatter.default)
def slice_scatter(
    ctx: Context, x: Tensor, src: Tensor, dim: int = 0, start: object = None, end: object = None, step: object = 1
) -> Tensor | Declined:
    if src.ndim != x.ndim:
        return Declined(_OTHER_DIMENSIONS)
    if _is_returned_with_holes(ctx, x):
        return Declined(_HOLES)
    if (start, end, step) == (None, None, 1) and src.sizes == x.sizes:
        return convert(src, x.dtype)  # all of it is replaced
    dim = wrap(dim, x.ndim)
    size = x.sizes[dim].as_int()
    if size is None or not all(value is None or isinstance(value, int) for value in (start, end, step)):
        return Declined("a slice whose bounds are known only at run time")
    first, last, stride = slice(start, end, step).indices(size)
    if src.sizes != (*x.sizes[:dim], Index.of(len(range(first, last, stride))), *x.sizes[dim + 1 :]):
        return Declined("another number of elements than are replaced, which eager refuses")
    if last <= first:
        return pure(x, x.expr)
    place = positions(x.sizes)
    checks = [compare("ge", place[dim], Index.of(first)), compare("lt", place[dim], Index.of(last))]
    if stride != 1:
        # Only every ``stride``-th position from ``first`` on is replaced.
        checks.append(compare("eq", (place[dim] - first) % stride, ZERO))
    inside = Value(Const(True, torch.bool))
    for check in checks:
        if not isinstance(check, Const):
            inside = Value(check) if isinstance(inside.expr, Const) else inside & Value(check)
    src = convert(src, x.dtype)
    # Where in ``src`` the replaced element comes from; only read inside, where the division has no remainder.
    local = ZERO if src.sizes[dim] == ONE else (place[dim] - first) // stride
    body = masked(inside, Value(at(src, [*place[:dim], local, *place[dim + 1 :]])), 0)
    return pure(x, where(inside, body, Value(x.expr)).expr)


@lowering(aten.select_scatter.default)
def select_scatter(ctx: Context, x: Tensor, src: Tensor, dim: int, index: object) -> Tensor | Declined:
    if src.ndim != x.ndim - 1:
        return Declined(_OTHER_DIMENSIONS)
    if _is_returned_with_holes(ctx, x):
        return Declined(_HOLES)
    dim = wrap(dim, x.ndim)
    chosen = from_end(ctx.sizes.index(index), x.sizes[dim])
    if chosen is None or not is_inside(chosen, x.sizes[dim]) or src.sizes != (*x.sizes[:dim], *x.sizes[dim + 1 :]):
        return Declined("a position that may be outside, or another number of elements than are replaced")
    place = positions(x.sizes)
    here = Value(compare("eq", place[dim], chosen))
    src = convert(src, x.dtype)
    body = masked(here, Value(at(src, [*place[:dim], *place[dim + 1 :]])), 0)
    return pure(x, where(here, body, Value(x.expr)).expr)


@lowering(aten.diagonal_scatter.default)
def diagonal_scatter(
    ctx: Context, x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor | Declined:
    if x.ndim < 2:
        return Declined(_OTHER_DIMENSIONS)
    if _is_returned_with_holes(ctx, x):
        return Declined(_HOLES)
    rows, columns = wrap(dim1, x.ndim), wrap(dim2, x.ndim)
    height, width = x.sizes[rows].as_int(), x.sizes[columns].as_int()
    if height is None or width is None or not isinstance(offset, int):
        return Declined("a diagonal whose length is known only at run time")
    # A negative offset takes rows away, a positive one columns: of (2, 3) and 1, min(2, 3 - 1) = 2.
    length = max(0, min(height + min(offset, 0), width - max(offset, 0)))
    others = [dim for dim in range(x.ndim) if dim not in (rows, columns)]
    if src.sizes != (*(x.sizes[dim] for dim in others), Index.of(length)):
        return Declined("another number of elements than are replaced")
    place = positions(x.sizes)
    here = Value(compare("eq", place[columns] - place[rows], Index.of(offset)))
    # The diagonal begins in the first row, or in the first column: the coordinate that begins at 0 counts along it.
    along = place[rows] if offset >= 0 else place[columns]
    src = convert(src, x.dtype)
    body = masked(here, Value(at(src, [*(place[dim] for dim in others), along])), 0)
    return pure(x, where(here, body, Value(x.expr)).expr)
