"""Images enlarged and shrunk: nearest and linear interpolation in one, two and three dimensions.

Where an element comes from is an exact index, a quotient of whole numbers; eager computes it in floating point.  A
nearest element is taken only where both agree for every place, and how far an element lies between two others is
exact here and rounded there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

from inductor import costs
from inductor.ir.expr import Const, Expr
from inductor.ir.index import ZERO, Index
from inductor.lowerings.algebra import Value, masked, where
from inductor.lowerings.context import Context
from inductor.lowerings.registry import Declined, Lowering, OpOverload, lowering
from inductor.lowerings.values import (
    Tensor,
    as_index_value,
    at,
    compare,
    compute_dtype,
    cost,
    positions,
    pure,
    reindex,
    strided,
)
from inductor.torch_versions import aten

SCALES = Declined("a scale that is not the quotient of the sizes")


def _sizes(ctx: Context, x: Tensor, output_size: Any) -> tuple[list[int], list[int]] | None:
    """The sizes of an image before and after; None where they are known only at run time."""
    before = [size.as_int() for size in x.sizes[2:]]
    after = [size.as_int() for size in ctx.sizes.indices(output_size)]
    if not all(before) or not all(after):
        return None
    return [size for size in before if size], [size for size in after if size]


# -- nearest ----------------------------------------------------------------------------------------------------------


def _agrees_with_eager(before: int, after: int, scale: float | None, exact: bool) -> bool:
    """True if eager's positions, computed in float32, are the exact ones for every element."""
    place = torch.arange(after)
    ours = (2 * place + 1) * before // (2 * after) if exact else place * before // after
    step = torch.tensor(1 / scale if scale else before / after, dtype=torch.float32)
    theirs = ((place + 0.5 if exact else place) * step).floor().long().clamp(max=before - 1)
    return torch.equal(ours, theirs)


def _nearest(exact: bool) -> Lowering:
    """The lowering of nearest interpolation; ``exact`` takes the element nearest to the middle."""

    def lower(ctx: Context, x: Tensor, output_size: Any, *scales: Any) -> Tensor | Declined:
        known = _sizes(ctx, x, output_size)
        if known is None:
            return Declined("an image whose size is known only at run time")
        factors = scales or (None,) * len(known[0])
        if not all(_agrees_with_eager(*each, exact) for each in zip(*known, factors, strict=True)):
            return SCALES
        sizes = (*x.sizes[:2], *map(Index.of, known[1]))
        place = positions(sizes)
        local = [
            (at_ * 2 + 1) * before // (2 * after) if exact else at_ * before // after
            for at_, before, after in zip(place[2:], *known, strict=True)
        ]
        # Eager copies: a value without memory of its own, and no view.
        moved = reindex(x, sizes, (*place[:2], *local))
        return pure(moved, moved.expr)

    return lower


def _nearest_backward(ctx: Context, grad: Tensor, output_size: Any, input_size: Any, *scales: Any) -> Tensor | Declined:
    """The gradient of nearest interpolation: every element adds up the ones made of it, where that is the same number
    for all."""
    sizes = ctx.sizes.indices(input_size)
    factors = [new.divisible_by(old) for new, old in zip(grad.sizes[2:], sizes[2:], strict=True)]
    whole = [factor.as_int() for factor in factors if factor is not None]
    taps = [factor for factor in whole if factor]
    given = [scale for scale in scales if scale is not None]
    # Otherwise elements have different numbers of results, which only a scatter adds up.
    if len(taps) != len(factors) or given not in ([], [float(factor) for factor in taps]):
        return Declined("a scale that is no whole number")
    if math.prod(taps) > costs.ANY.most_taps:
        return Declined("a scale that is large")
    place = positions(sizes)
    total: Value | None = None
    for offsets in itertools.product(*map(range, taps)):
        local = [at_ * k + offset for at_, k, offset in zip(place[2:], taps, offsets, strict=True)]
        value = Value(at(grad, [*place[:2], *local]))
        total = value if total is None else total + value
    assert total is not None
    return Tensor(sizes, grad.dtype, grad.device, total.expr)


# -- linear -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Between:
    """A place between two neighbours: ``part / whole`` behind the element at ``first``, which may lie one before the
    image."""

    first: Index
    part: Index
    whole: int
    size: int

    @staticmethod
    def of(place: Index, before: int, after: int, align_corners: bool) -> _Between:
        if align_corners:
            steps = max(after - 1, 1)
            along = place * (before - 1) if after > 1 else ZERO
            return _Between(along // steps, along % steps, steps, before)
        # The middle of the result's element among the image's, less half an element, over a common denominator.
        along = (place * 2 + 1) * before - after
        return _Between(along // (2 * after), along % (2 * after), 2 * after, before)

    def weight(self, dtype: torch.dtype) -> Value:
        return Value(as_index_value(self.part, torch.int64)).to(dtype) / float(self.whole)


def _blend(x: Tensor, place: Sequence[Index], between: Sequence[_Between], dtype: torch.dtype) -> Value:
    """The weighted mean of the two neighbours in the next dimension, each of them such a mean in the remaining ones."""
    if not between:
        return Value(at(x, place))
    here, *rest = between
    before, behind = _holds("ge", here.first, ZERO), _holds("lt", here.first + 1, Index.of(here.size))
    left = masked(before, _blend(x, [*place, here.first], rest, dtype), 0.0)
    right = masked(behind, _blend(x, [*place, here.first + 1], rest, dtype), 0.0)
    weight = here.weight(dtype)
    mixed = left * (1.0 - weight) + right * weight
    # Beyond the border there is one neighbour, which gets all the weight.
    return where(before, where(behind, mixed, left), right)


def _holds(op: str, left: Index, right: Index) -> Value:
    """A comparison; one that the ranges decide is taken to hold."""
    check: Expr = compare(op, left, right)
    return Value(check if not isinstance(check, Const) else Const(True, torch.bool))


def _linear(
    ctx: Context, x: Tensor, output_size: object, align_corners: bool = False, *scales: float | None
) -> Tensor | Declined:
    known = _sizes(ctx, x, output_size)
    if known is None or not x.dtype.is_floating_point:
        return Declined("an image whose size is known only at run time, or integers")
    layout = strided(x)
    if x.device.type == "cpu" and len(known[0]) > 1 and (layout is None or layout[0][-1] == 1):
        return Declined("images whose rows lie along the lanes of a vector: eager does one dimension after the other")
    given = [(scale, *sizes) for scale, *sizes in zip(scales, *known, strict=False) if scale and not align_corners]
    # Eager computes with the given scale, the index with the quotient of the sizes.
    if any(Fraction(scale) * before != after for scale, before, after in given):
        return SCALES
    # Each element is read by several results.
    x = x if cost(x.expr, costs.ANY.plain_read + 1) <= costs.ANY.plain_read else ctx.realize(x)
    sizes = (*x.sizes[:2], *map(Index.of, known[1]))
    place = positions(sizes)
    between = [_Between.of(*each, align_corners) for each in zip(place[2:], *known, strict=True)]
    value = _blend(x, place[:2], between, compute_dtype(x.dtype))
    return Tensor(sizes, x.dtype, x.device, value.expr)


_OPERATORS: tuple[tuple[OpOverload, Lowering], ...] = (
    (aten.upsample_nearest1d.default, _nearest(exact=False)),
    (aten.upsample_nearest2d.default, _nearest(exact=False)),
    (aten.upsample_nearest3d.default, _nearest(exact=False)),
    (aten._upsample_nearest_exact1d.default, _nearest(exact=True)),
    (aten._upsample_nearest_exact2d.default, _nearest(exact=True)),
    (aten._upsample_nearest_exact3d.default, _nearest(exact=True)),
    (aten.upsample_nearest1d_backward.default, _nearest_backward),
    (aten.upsample_nearest2d_backward.default, _nearest_backward),
    (aten.upsample_nearest3d_backward.default, _nearest_backward),
    (aten.upsample_linear1d.default, _linear),
    (aten.upsample_bilinear2d.default, _linear),
    (aten.upsample_trilinear3d.default, _linear),
)
for _overload, _lower in _OPERATORS:
    lowering(_overload)(_lower)
