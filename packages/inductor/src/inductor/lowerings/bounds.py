"""Values kept within bounds: clamping, the larger and the smaller of two, replacements for NaN and infinities.

Of two zeros with other signs each of eager's kernels has its own choice, which these follow.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from inductor.lowerings.algebra import Value, call, equal, isnan, maximum, minimum, where
from inductor.lowerings.context import Context
from inductor.lowerings.pointwise import INF, elementwise, positive, row
from inductor.lowerings.promotion import promote
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.sizes import numel
from inductor.lowerings.values import Tensor, broadcast_sizes
from inductor.torch_versions import aten


@lowering(aten.hardtanh.default)
def hardtanh(ctx: Context, x: Tensor, min_val: Any = -1, max_val: Any = 1) -> Tensor | Declined:
    if not x.dtype.is_floating_point:
        min_val, max_val = int(min_val), int(max_val)
    return clamp(ctx, x, min_val, max_val)


@lowering(aten.clamp.default, aten.clamp.Tensor, aten.clip.default, aten.clip.Tensor)
def clamp(ctx: Context, x: Tensor, min: object = None, max: object = None) -> Tensor | Declined:
    if _is_passed_over(min, max):
        min = max = None
    bounds = [bound for bound in (min, max) if bound is not None]

    def formula(value: Value, *ends: Value) -> Value:
        rest = list(ends)
        if min is not None:
            value = maximum(rest.pop(0), value)
        return minimum(rest.pop(0), value) if max is not None else value

    if len(bounds) == 1 and isinstance(bounds[0], Tensor):
        return (_smallest if min is None else _largest)(ctx, x, bounds[0])
    return elementwise((x, *bounds), formula)


def _is_passed_over(*ends: object) -> bool:
    """True if the only bound is NaN and this torch ignores it."""
    given = [end for end in ends if end is not None]
    return len(given) == 1 and isinstance(given[0], float) and math.isnan(given[0]) and _passes_over_nan()


@functools.cache
def _passes_over_nan() -> bool:
    """True if this torch's ``clamp`` ignores a bound that is NaN; releases differ."""
    return not bool(torch.clamp(torch.zeros(1), max=math.nan).isnan())


@row(aten.clamp_min.default, operands=2)
def clamp_min(x: Value, low: Value) -> Value:
    return maximum(low, x)


@row(aten.clamp_max.default, operands=2)
def clamp_max(x: Value, high: Value) -> Value:
    return minimum(high, x)


def _extreme(op: str) -> Callable[..., Tensor | Declined]:
    """The lowering of ``maximum`` or ``minimum``.  Of two zeros eager's kernels for CPUs return the second in vectors,
    two of which they read at once, and the first where the elements are fewer."""

    def lower(ctx: Context, x: Tensor, y: Any) -> Tensor | Declined:  # lists of tensors have a number for the second
        count = numel(broadcast_sizes(each.sizes for each in (x, y) if isinstance(each, Tensor))).as_int()
        few = x.device.type == "cpu" and count is not None and count * promote((x, y)).itemsize < _TWO_VECTORS
        return elementwise((x, y), lambda a, b: call(op, b, a) if few else call(op, a, b))

    return lower


_TWO_VECTORS = 64
"""Bytes that eager's kernels for CPUs read at once.  No cost: which of two zeros is the result depends on them."""
_largest, _smallest = _extreme("maximum"), _extreme("minimum")
lowering(aten.maximum.default, aten.max.other, aten.clamp_min.Tensor)(_largest)
lowering(aten.minimum.default, aten.min.other, aten.clamp_max.Tensor)(_smallest)


def _but_for_nan(op: str) -> Callable[..., Tensor | Declined]:
    """The lowering of ``fmax`` or ``fmin``.  Of two zeros eager's kernels for CPUs return the first, in bfloat16 the
    second."""

    def lower(ctx: Context, x: Tensor, y: Tensor) -> Tensor | Declined:
        last = promote((x, y)) == torch.bfloat16 and x.device.type == "cpu"
        return elementwise((x, y), lambda a, b: call(op, b, a) if last else call(op, a, b))

    return lower


lowering(aten.fmax.default)(_but_for_nan("fmax"))
lowering(aten.fmin.default)(_but_for_nan("fmin"))


@lowering(aten.nan_to_num.default)
def nan_to_num(
    ctx: Context, x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor | Declined:
    if not x.dtype.is_floating_point:
        return elementwise((x,), positive)
    limits = torch.finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    zero = 0.0 if nan is None else nan
    return elementwise((x,), lambda v: where(isnan(v), zero, where(equal(v, INF), high, where(equal(v, -INF), low, v))))
