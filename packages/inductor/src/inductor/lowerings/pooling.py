"""Pooling, forward and backward: every result is computed from the elements of one window of its input.

Small windows are written out in the expression, so that pooling is fused with what is around it; larger ones are
reductions.  Backward, every element of the input asks the windows that it lies in, so that nothing is scattered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from inductor import costs
from inductor.ir.expr import Const, Expr
from inductor.ir.index import ONE, ZERO, Index
from inductor.lowerings.algebra import Value, call, equal, isnan, masked, maximum, where
from inductor.lowerings.context import Context
from inductor.lowerings.registry import Declined, Lowering, OpOverload, lowering
from inductor.lowerings.values import Tensor, as_index_value, at, cost, number, positions, pure, strided
from inductor.lowerings.windows import Adaptive, Regular, Windows, as_number
from inductor.torch_versions import aten

EMPTY = Declined("nothing to pool")


# -- windows from arguments -------------------------------------------------------------------------------------------


def _each(values: Any, ndim: int, default: Sequence[int] = ()) -> list[int]:
    """One number per dimension, as operators allow it to be given."""
    given = (list(values) if isinstance(values, list | tuple) else [values]) or list(default)
    return given * ndim if len(given) == 1 else given


def _regular(
    x: Tensor, pooled: Sequence[Index], ndim: int, kernel: object, stride: object, padding: object, dilation: object = 1
) -> list[Windows]:
    """The windows of an operator with these arguments over the last dimensions of ``x``."""
    lengths = _each(kernel, ndim)
    steps, before, spread = _each(stride, ndim, lengths), _each(padding, ndim), _each(dilation, ndim)
    return [
        Regular(*each) for each in zip(x.sizes[-ndim:], pooled[-ndim:], lengths, steps, before, spread, strict=True)
    ]


def _adaptive(x: Tensor, pooled: Sequence[Index], ndim: int) -> list[Windows] | Declined:
    pairs = [(size.as_int(), count.as_int()) for size, count in zip(x.sizes[-ndim:], pooled[-ndim:], strict=True)]
    known = [Adaptive(size, count) for size, count in pairs if size and count]
    return list(known) if len(known) == ndim else Declined("windows known only at run time, or none")


def _result_sizes(ctx: Context) -> tuple[Index, ...]:
    """The sizes of the first result, from the tracer."""
    assert ctx.node is not None
    meta = ctx.node.meta["val"]
    return ctx.sizes.indices((meta[0] if isinstance(meta, list | tuple) else meta).shape)


def _read_often(ctx: Context, x: Tensor, windows: Sequence[Windows]) -> Tensor:
    """``x`` in a form that overlapping windows may read: in memory where it would be computed for several of them."""
    overlap = any(w.most_over_one > 1 for w in windows)
    return ctx.realize(x) if overlap and cost(x.expr, costs.ANY.plain_read + 1) > costs.ANY.plain_read else x


def _every(conditions: Sequence[Expr]) -> Value:
    """The conjunction of conditions; those that always hold are left out."""
    result = Value(Const(True, torch.bool))
    for condition in conditions:
        if not isinstance(condition, Const):
            result = Value(condition) if isinstance(result.expr, Const) else result & Value(condition)
    return result


# -- elements of windows ----------------------------------------------------------------------------------------------


def _is_there(windows: Sequence[Windows], outer: Sequence[Index], taps: Sequence[Index]) -> Value:
    """The condition for an element of a window to exist."""
    return _every([check for w, at_, tap in zip(windows, outer, taps, strict=True) for check in w.bounds(at_, tap)])


def _element(x: Tensor, windows: Sequence[Windows], result: Sequence[Index], taps: Sequence[Index], fill: Any) -> Value:
    """One element of the window behind the result at ``result``; ``fill`` where the window reaches outside."""
    lead, outer = result[: -len(windows)], result[-len(windows) :]
    places = [w.place(at_, tap) for w, at_, tap in zip(windows, outer, taps, strict=True)]
    return masked(_is_there(windows, outer, taps), Value(at(x, [*lead, *places])), fill)


def _taps(windows: Sequence[Windows]) -> Iterator[tuple[Index, ...]]:
    """The positions within a window, the last dimension fastest."""
    return itertools.product(*([Index.of(k) for k in range(w.taps)] for w in windows))


def _is_written_out(windows: Sequence[Windows]) -> bool:
    """True for windows small enough to be written out as an expression; others are reductions."""
    return math.prod(w.taps for w in windows) <= costs.ANY.window_written_out


def _reduced(
    ctx: Context, x: Tensor, sizes: tuple[Index, ...], windows: Sequence[Windows], kinds: Sequence[str], fill: object,
    finish: Callable[..., Sequence[tuple[Expr, torch.dtype]]],
) -> list[Tensor]:  # fmt: skip
    """Reduces over windows as over further dimensions; ``argmax`` comes with the last NaN of each, or -1."""
    whole = (*sizes, *(Index.of(w.taps) for w in windows))
    place = positions(whole)
    value = _element(x, windows, place[: len(sizes)], place[len(sizes) :], fill)
    like = Tensor(whole, x.dtype, x.device, value.expr)
    reductions = [(kind, value.expr, torch.int64 if kind == "argmax" else value.dtype) for kind in kinds]
    if "argmax" in kinds and x.dtype.is_floating_point:
        order = ZERO
        for w, tap in zip(windows, place[len(sizes) :], strict=True):
            order = order * w.taps + tap
        last = where(isnan(value), Value(as_index_value(order, torch.int64)), Value(number(-1, torch.int64)))
        reductions.append(("max", last.expr, torch.int64))
    return ctx.reduce(like, list(range(len(sizes), len(whole))), reductions, finish)


# -- the largest ------------------------------------------------------------------------------------------------------


def _lowest(dtype: torch.dtype) -> float | int:
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def largest(ctx: Context, x: Tensor, windows: Sequence[Windows]) -> list[Tensor] | Declined:
    """The largest element of every window, and its position in the flattened last dimensions."""
    sizes = _result_sizes(ctx)
    if any(size == 0 for size in sizes):
        return EMPTY
    x = _read_often(ctx, x, windows)
    if not _is_written_out(windows):
        return _largest_by_reduction(ctx, x, sizes, windows)
    place = positions(sizes)
    outer = place[-len(windows) :]
    # Elements outside are as low as there are, so that they are never the largest of a window.
    values = [_element(x, windows, place, taps, _lowest(x.dtype)) for taps in _taps(windows)]
    highest = values[0]
    for value in values[1:]:
        highest = maximum(highest, value)
    where_ = _where_largest(windows, outer, values, highest)
    return [Tensor(sizes, x.dtype, x.device, highest.expr), Tensor(sizes, torch.int64, x.device, where_.expr)]


def _where_largest(
    windows: Sequence[Windows], outer: Sequence[Index], values: Sequence[Value], highest: Value
) -> Value:
    """The position of the first largest element, or of the last NaN; positions outside never win, not even a tie."""
    taps = list(_taps(windows))
    places = [_narrow(_flat(windows, outer, tap)) for tap in taps]
    position = Value(number(-1, places[0].dtype))
    # Backwards, so that the first of equal elements is chosen last and stays.
    for tap, value, here in reversed(list(zip(taps, values, places, strict=True))):
        inside, found = _is_there(windows, outer, tap), equal(value, highest)
        position = where(found if isinstance(inside.expr, Const) else inside & found, here, position)
    if highest.dtype.is_floating_point:
        for value, here in zip(values, places, strict=True):
            position = where(isnan(value), here, position)
    return position.to(torch.int64)


def _narrow(position: Index) -> Value:
    """A position in 32 bits, of which vectors hold twice as many, where that is enough."""
    high = position.bounds[1]
    return Value(as_index_value(position, torch.int32 if high is not None and high < 2**31 else torch.int64))


def _flat(windows: Sequence[Windows], outer: Sequence[Index], taps: Sequence[Index]) -> Index:
    """The position of a window's element in the flattened last dimensions."""
    position = ZERO
    for w, at_, tap in zip(windows, outer, taps, strict=True):
        position = position * w.size + w.place(at_, tap)
    return position


def _largest_by_reduction(
    ctx: Context, x: Tensor, sizes: tuple[Index, ...], windows: Sequence[Windows]
) -> list[Tensor] | Declined:
    """The largest elements of large windows, by a reduction over them; a position within one is taken apart again."""
    # A tie of the lowest number with an element outside would give a position outside.
    if not all(w.is_even for w in windows):
        return Declined("large windows that reach outside: their largest element may lie there")
    outer = positions(sizes)[-len(windows) :]

    def finish(best: Expr, order: Expr, *last_nan: Expr) -> Sequence[tuple[Expr, torch.dtype]]:
        """The largest element, and its position from ``order``, which counts within the window; eager takes the last
        of several NaN."""
        rest, place, step = Value(order), Value(number(0, torch.int64)), ONE
        for last in map(Value, last_nan):
            rest = where(last < 0, rest, last)
        for w, at_ in zip(reversed(windows), reversed(outer), strict=True):
            quotient = call("floordiv", rest, w.taps)
            offset = (rest - quotient * w.taps) * (w.spread if isinstance(w, Regular) else 1)
            place = place + (as_number(w.place(at_, ZERO)) + offset) * as_number(step)
            rest, step = quotient, step * w.size
        return [(best, x.dtype), (place.expr, torch.int64)]

    return _reduced(ctx, x, sizes, windows, ["max", "argmax"], _lowest(x.dtype), finish)


def largest_backward(
    ctx: Context, grad: Tensor, x: Tensor, indices: Tensor, windows: Sequence[Windows]
) -> Tensor | Declined:
    """The gradient of max pooling: every element adds up the gradients of the windows whose largest element it is."""
    layout = strided(x)
    if x.device.type == "cpu" and (layout is None or layout[0][-1] == 1):
        return Declined("windows along the lanes of a vector: scattering is faster")
    place = positions(x.sizes)
    inner = place[-len(windows) :]
    # The flattened position of the element itself, to compare with the positions kept by forward.
    here = ZERO
    for w, at_ in zip(windows, inner, strict=True):
        here = here * w.size + at_

    def chosen(over: Sequence[Index]) -> Value:
        return where(equal(Value(at(indices, over)), as_number(here)), Value(at(grad, over)), 0.0)

    return _gathered(x, windows, chosen)


def _gathered(x: Tensor, windows: Sequence[Windows], part: Callable[[Sequence[Index]], Value]) -> Tensor | Declined:
    """The sum of ``part`` over the windows that cover each element of ``x``, in their order.  It starts from zero, as
    eager's does, so that no zero is negative."""
    orders = [range(w.most_over_one) for w in windows]
    if math.prod(len(order) for order in orders) > costs.ANY.window_written_out:
        return Declined("too many windows over one element")
    place = positions(x.sizes)
    lead, inner = place[: -len(windows)], place[-len(windows) :]
    total: Value | None = None
    for order in itertools.product(*orders):
        over = [w.window_over(at_, k) for w, at_, k in zip(windows, inner, order, strict=True)]
        checks = [check for w, at_, k in zip(windows, inner, order, strict=True) for check in w.covers(at_, k)]
        term = masked(_every(checks), part([*lead, *over]), 0.0)
        total = term + 0.0 if total is None else total + term
    return EMPTY if total is None else pure(x, total.expr)


# -- averages ---------------------------------------------------------------------------------------------------------


def average(
    ctx: Context, x: Tensor, windows: Sequence[Windows], with_padding: bool = True, divisor: int | None = None
) -> Tensor | Declined:
    """The mean of every window, over the elements that count, or divided by ``divisor``."""
    sizes = _result_sizes(ctx)
    if divisor == 0 or not x.dtype.is_floating_point or any(size == 0 for size in sizes):
        return Declined("nothing to pool, no divisor, or numbers that are not real floats")
    outer = positions(sizes)[-len(windows) :]
    if not _is_written_out(windows):
        return _reduced(
            ctx, x, sizes, windows, ["sum"], 0.0,
            lambda total: [(_mean(Value(total), windows, outer, with_padding, divisor).expr, x.dtype)],
        )[0]  # fmt: skip
    x = _read_often(ctx, x, windows)
    place, total = positions(sizes), None
    for taps in _taps(windows):
        value = _element(x, windows, place, taps, 0.0)
        total = value + 0.0 if total is None else total + value
    assert total is not None
    return Tensor(sizes, x.dtype, x.device, _mean(total, windows, outer, with_padding, divisor).expr)


def _mean(
    total: Value, windows: Sequence[Windows], outer: Sequence[Index], with_padding: bool, divisor: int | None
) -> Value:
    """A window's sum divided by ``divisor`` or by the number of its elements that count."""
    if divisor is not None:
        return total / float(divisor)
    if all(w.is_full(with_padding) for w in windows):
        return total / float(math.prod(w.taps for w in windows))
    count = as_number(ONE)
    for w, at_ in zip(windows, outer, strict=True):
        count = w.length(at_, with_padding) * count
    return total / count.to(total.dtype)


def average_backward(
    ctx: Context, grad: Tensor, x: Tensor, windows: Sequence[Windows], with_padding: bool = True,
    divisor: int | None = None,
) -> Tensor | Declined:  # fmt: skip
    """The gradient of an average: every element adds up its share of the windows over it."""
    spread = any(w.taps != 1 and isinstance(w, Regular) and w.spread != 1 for w in windows)
    if divisor == 0 or spread or not x.dtype.is_floating_point:
        return Declined("no divisor, spread windows, or numbers that are not real floats")

    def share(over: Sequence[Index]) -> Value:
        return _mean(Value(at(grad, over)), windows, over[-len(windows) :], with_padding, divisor)

    return _gathered(x, windows, share)


# -- the operators ----------------------------------------------------------------------------------------------------


def _max_pool(ndim: int) -> Lowering:
    def lower(
        ctx: Context,
        x: Tensor,
        kernel: object,
        stride: object = (),
        padding: object = 0,
        dilation: object = 1,
        ceil_mode: object = 0,
    ) -> list[Tensor] | Declined:
        return largest(ctx, x, _regular(x, _result_sizes(ctx), ndim, kernel, stride, padding, dilation))

    return lower


def _max_pool_backward(ndim: int) -> Lowering:
    def lower(
        ctx: Context, grad: Tensor, x: Tensor, kernel: object, stride: object, padding: object, dilation: object,
        ceil_mode: object, indices: Tensor,
    ) -> Tensor | Declined:  # fmt: skip
        windows = _regular(x, grad.sizes, ndim, kernel, stride, padding, dilation)
        return largest_backward(ctx, grad, x, indices, windows)

    return lower


def _avg_pool(ndim: int) -> Lowering:
    def lower(
        ctx: Context, x: Tensor, kernel: object, stride: object = (), padding: object = 0, ceil_mode: object = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Tensor | Declined:  # fmt: skip
        windows = _regular(x, _result_sizes(ctx), ndim, kernel, stride, padding)
        return average(ctx, x, windows, count_include_pad, divisor_override)

    return lower


def _avg_pool_backward(ndim: int) -> Lowering:
    def lower(
        ctx: Context, grad: Tensor, x: Tensor, kernel: object, stride: object, padding: object, ceil_mode: object,
        count_include_pad: bool, divisor_override: int | None,
    ) -> Tensor | Declined:  # fmt: skip
        windows = _regular(x, grad.sizes, ndim, kernel, stride, padding)
        return average_backward(ctx, grad, x, windows, count_include_pad, divisor_override)

    return lower


def _with_adaptive(ndim: int, lower: Callable[..., Any], pooled_argument: int | None) -> Lowering:
    """``lower`` for adaptive windows.  Their number is that of the result; backward, that of the gradient, which is
    then the first argument and followed by the input."""

    def lowered(ctx: Context, *args: Any) -> Any:
        x, pooled = (args[0], _result_sizes(ctx)) if pooled_argument is None else (args[1], args[0].sizes)
        windows = _adaptive(x, pooled, ndim)
        if isinstance(windows, Declined):
            return windows
        return lower(ctx, x, windows) if pooled_argument is None else lower(ctx, *args, windows)

    return lowered


_OPERATORS: tuple[tuple[OpOverload, Lowering], ...] = (
    (aten.max_pool2d_with_indices.default, _max_pool(2)),
    (aten.max_pool3d_with_indices.default, _max_pool(3)),
    (aten.max_pool2d_with_indices_backward.default, _max_pool_backward(2)),
    (aten.max_pool3d_with_indices_backward.default, _max_pool_backward(3)),
    (aten.avg_pool2d.default, _avg_pool(2)),
    (aten.avg_pool3d.default, _avg_pool(3)),
    (aten.avg_pool2d_backward.default, _avg_pool_backward(2)),
    (aten.avg_pool3d_backward.default, _avg_pool_backward(3)),
    (aten._adaptive_avg_pool2d.default, _with_adaptive(2, average, None)),
    (aten._adaptive_avg_pool3d.default, _with_adaptive(3, average, None)),
    (aten._adaptive_avg_pool2d_backward.default, _with_adaptive(2, average_backward, 0)),
    (aten._adaptive_avg_pool3d_backward.default, _with_adaptive(3, average_backward, 0)),
    (aten.adaptive_max_pool2d.default, _with_adaptive(2, largest, None)),
    (aten.adaptive_max_pool3d.default, _with_adaptive(3, largest, None)),
    (aten.adaptive_max_pool2d_backward.default, _with_adaptive(2, largest_backward, 0)),
    (aten.adaptive_max_pool3d_backward.default, _with_adaptive(3, largest_backward, 0)),
)
for _overload, _lower in _OPERATORS:
    lowering(_overload)(_lower)
