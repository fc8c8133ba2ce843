"""Tensors made of numbers and positions alone: they take no memory until something needs it.

``of_any_size`` marks those that are right for data-dependent sizes: they read nothing, so there is nothing whose
bounds could be missed.  ``**_`` swallows the layout, which ``lower`` has checked as it has the dtype, and
pinning, which has no effect here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from inductor.ir.index import Index
from inductor.lowerings.algebra import Value, where
from inductor.lowerings.context import Context, is_dense
from inductor.lowerings.promotion import scalar_dtype
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.values import (
    Tensor,
    as_index_value,
    compare,
    compute_dtype,
    convert,
    number,
    positions,
    pure,
    representable,
)

aten, prims = torch.ops.aten, torch.ops.prims


def filled(ctx: Context, size: Sequence[Any], value: Any, dtype: torch.dtype | None, device: Any) -> Tensor | Declined:
    """A tensor of one number."""
    if isinstance(value, complex) or (dtype is not None and dtype.is_complex):
        return Declined("complex numbers")
    dtype = dtype or scalar_dtype(value)
    # A size as a fill value is a position used as a number; it is not known while kernels are compiled.
    if isinstance(value, Index):
        element = as_index_value(value, compute_dtype(dtype))
    else:
        # Rounded to the dtype first: 0.1 in a bfloat16 tensor is 0.10009765625 also where the tensor never gets memory.
        element = number(representable(value, dtype), compute_dtype(dtype))
    return Tensor(ctx.sizes.indices(size), dtype, torch.device(device or "cpu"), element)


@lowering(aten.full.default, of_any_size=True)
def full(ctx: Context, size: Sequence[Any], value: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    # The number would have to be read in the kernel, and its dtype be promoted.
    if isinstance(value, Tensor):
        return Declined("a fill value that is a tensor")
    return filled(ctx, size, value, dtype or (torch.get_default_dtype() if type(value) is float else None), device)


@lowering(aten.full_like.default)
def full_like(
    ctx: Context, x: Tensor, value: object, *, dtype: object = None, device: object = None, **_: object
) -> Any:
    return filled(ctx, x.sizes, value, dtype or x.dtype, device or x.device)


@lowering(aten.zeros.default, of_any_size=True)
def zeros(ctx: Context, size: Sequence[object], *, dtype: object = None, device: object = None, **_: object) -> Any:
    return filled(ctx, size, 0, dtype or torch.get_default_dtype(), device)


@lowering(aten.ones.default, of_any_size=True)
def ones(ctx: Context, size: Sequence[object], *, dtype: object = None, device: object = None, **_: object) -> Any:
    return filled(ctx, size, 1, dtype or torch.get_default_dtype(), device)


@lowering(aten.zeros_like.default)
def zeros_like(ctx: Context, x: Tensor, *, dtype: object = None, device: object = None, **_: object) -> Any:
    return filled(ctx, x.sizes, 0, dtype or x.dtype, device or x.device)


@lowering(aten.ones_like.default)
def ones_like(ctx: Context, x: Tensor, *, dtype: object = None, device: object = None, **_: object) -> Any:
    return filled(ctx, x.sizes, 1, dtype or x.dtype, device or x.device)


@lowering(aten.new_zeros.default, of_any_size=True)
def new_zeros(
    ctx: Context, x: Tensor, size: Sequence[object], *, dtype: object = None, device: object = None, **_: object
) -> Any:
    return filled(ctx, size, 0, dtype or x.dtype, device or x.device)


@lowering(aten.new_ones.default, of_any_size=True)
def new_ones(
    ctx: Context, x: Tensor, size: Sequence[object], *, dtype: object = None, device: object = None, **_: object
) -> Any:
    return filled(ctx, size, 1, dtype or x.dtype, device or x.device)


@lowering(aten.new_full.default, of_any_size=True)
def new_full(
    ctx: Context,
    x: Tensor,
    size: Sequence[object],
    value: object,
    *,
    dtype: object = None,
    device: object = None,
    **_: object,
) -> Any:
    return filled(ctx, size, value, dtype or x.dtype, device or x.device)


@lowering(aten.scalar_tensor.default)
def scalar_tensor(ctx: Context, value: object, *, dtype: object = None, device: object = None, **_: object) -> Any:
    return filled(ctx, (), value, dtype or torch.get_default_dtype(), device)


@lowering(aten.fill.Scalar)
def fill(ctx: Context, x: Tensor, value: object) -> Any:
    return filled(ctx, x.sizes, value, x.dtype, x.device)


@lowering(aten.fill.Tensor)
def fill_tensor(ctx: Context, x: Tensor, value: Tensor) -> Any:
    if value.sizes:
        return Declined("a fill value of more than no dimensions, which torch's kernel refuses")
    return Tensor(x.sizes, x.dtype, x.device, convert(value, x.dtype).expr)


# -- positions --------------------------------------------------------------------------------------------------------


@lowering(prims.iota.default, of_any_size=True)
def iota(
    ctx: Context,
    length: object,
    *,
    start: object,
    step: object,
    dtype: torch.dtype,
    device: object,
    requires_grad: bool = False,
) -> Tensor:
    sizes = (ctx.sizes.index(length),)
    place = positions(sizes)[0] * ctx.sizes.index(step) + ctx.sizes.index(start)
    return Tensor(sizes, dtype, torch.device(device), as_index_value(place, compute_dtype(dtype)))


@lowering(aten.arange.start_step)
def arange_step(
    ctx: Context, start: Any, end: Any, step: Any = 1, *, dtype: Any = None, device: Any = None, **_: Any
) -> Tensor | Declined:
    bounds = (start, end, step)
    dtype = dtype or (torch.get_default_dtype() if any(isinstance(b, float) for b in bounds) else torch.int64)
    if any(isinstance(bound, float) for bound in bounds) or dtype.is_complex:
        return Declined("an arange of fractions")
    first, last, stride = (ctx.sizes.index(bound) for bound in bounds)
    if stride.as_int() is None:
        return Declined("an arange whose step is known only at run time")
    # Rounded up, by rounding down with the sign turned: arange(0, 5, 2) has -((0 - 5) // 2) = 3 elements.  Of floats
    # the count hangs on rounding, so that torch computes it.
    length = -((first - last) // stride)
    place = positions((length,))[0] * stride + first
    return Tensor((length,), dtype, torch.device(device or "cpu"), as_index_value(place, compute_dtype(dtype)))


@lowering(aten.arange.default)
def arange(ctx: Context, end: object, **options: object) -> Tensor | Declined:
    return arange_step(ctx, 0, end, 1, **options)


@lowering(aten.arange.start)
def arange_start(ctx: Context, start: object, end: object, **options: object) -> Tensor | Declined:
    return arange_step(ctx, start, end, 1, **options)


@lowering(aten.eye.default, aten.eye.m)
def eye(
    ctx: Context, n: object, m: object = None, *, dtype: object = None, device: object = None, **_: object
) -> Tensor:
    sizes = ctx.sizes.indices((n, n if m is None else m))
    dtype = dtype or torch.get_default_dtype()
    row, column = positions(sizes)
    same = Value(compare("eq", row, column)).to(compute_dtype(dtype))
    return Tensor(sizes, dtype, torch.device(device or "cpu"), same.expr)


def _triangle(x: Tensor, diagonal: int, op: str) -> Tensor | Declined:
    """``tril`` or ``triu``."""
    if x.dtype.is_complex:
        return Declined("complex numbers")
    row, column = positions(x.sizes)[-2:]
    # Distance from the diagonal: ``tril`` keeps what is not to the right of it, ``triu`` what is not to the left.
    kept = Value(compare(op, column - row - diagonal, Index.of(0)))
    return pure(x, where(kept, Value(x.expr), Value(number(0, compute_dtype(x.dtype)))).expr)


@lowering(aten.tril.default)
def tril(ctx: Context, x: Tensor, diagonal: int = 0) -> Tensor | Declined:
    return _triangle(x, diagonal, "le")


@lowering(aten.triu.default)
def triu(ctx: Context, x: Tensor, diagonal: int = 0) -> Tensor | Declined:
    return _triangle(x, diagonal, "ge")


def uninitialised(ctx: Context, size: Sequence[object], dtype: torch.dtype, device: object) -> Any:
    """A tensor with unspecified contents: zeros, which cost nothing where they are overwritten."""
    # Torch fills with NaN, or the largest integer, to make mistakes visible: zero would hide them.
    if torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory:
        return Declined("memory that torch fills, since deterministic algorithms were asked for")
    return filled(ctx, size, 0, dtype, device)


@lowering(aten.empty.memory_format, of_any_size=True)
def empty(ctx: Context, size: Sequence[object], *, dtype: object = None, device: object = None, **_: object) -> Any:
    return uninitialised(ctx, size, dtype or torch.get_default_dtype(), device)


@lowering(aten.empty_like.default)
def empty_like(ctx: Context, x: Tensor, *, dtype: object = None, device: object = None, **_: object) -> Any:
    return uninitialised(ctx, x.sizes, dtype or x.dtype, device or x.device)


@lowering(aten.new_empty.default, of_any_size=True)
def new_empty(
    ctx: Context, x: Tensor, size: Sequence[object], *, dtype: object = None, device: object = None, **_: object
) -> Any:
    return uninitialised(ctx, size, dtype or x.dtype, device or x.device)


@lowering(aten.new_empty_strided.default)
def new_empty_strided(
    ctx: Context, x: Tensor, size: Sequence[int | torch.SymInt], stride: Sequence[int | torch.SymInt], *,
    dtype: object = None,
    device: object = None,
    **_: object,
) -> Any:  # fmt: skip
    return _uninitialised_by_strides(ctx, size, stride, dtype or x.dtype, device or x.device)


@lowering(aten.empty_strided.default)
def empty_strided(
    ctx: Context,
    size: Sequence[int | torch.SymInt],
    stride: Sequence[int | torch.SymInt],
    *,
    dtype: object = None,
    device: object = None,
    **_: object,
) -> Any:
    return _uninitialised_by_strides(ctx, size, stride, dtype or torch.get_default_dtype(), device)


def _uninitialised_by_strides(
    ctx: Context,
    size: Sequence[int | torch.SymInt],
    stride: Sequence[int | torch.SymInt],
    dtype: torch.dtype,
    device: object,
) -> Tensor | Declined:
    """``uninitialised`` by strides, or the library's where the strides leave gaps: results written into it do, too."""
    if not is_dense(ctx.sizes.indices(size), ctx.sizes.indices(stride)):
        return Declined("memory with gaps")
    return uninitialised(ctx, size, dtype, device)
