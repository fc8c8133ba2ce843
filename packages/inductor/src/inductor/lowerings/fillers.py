"""Single numbers in tensors that fill parts of others: eager reads the number and refuses one that the dtype of what is
filled does not hold.

Must not know: what is filled, and where.
"""

from __future__ import annotations

import math

import torch

from inductor.ir.expr import Const
from inductor.lowerings.algebra import Value, absolute, equal, isnan
from inductor.lowerings.context import Context
from inductor.lowerings.registry import Declined
from inductor.lowerings.values import Tensor, convert, pure
from inductor.torch_versions import aten

_NAMES = {
    torch.uint8: "uint8_t", torch.int8: "int8_t", torch.int16: "int16_t", torch.int32: "int", torch.int64: "int64_t",
    torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16", torch.float32: "float", torch.float64: "double",
}  # fmt: skip
"""What torch calls the dtypes in its message."""


def filler(ctx: Context, value: Tensor, dtype: torch.dtype) -> Tensor | Declined:
    """The number in ``dtype``, asserted to fit where it might not: once, and not where it is written."""
    if dtype in (torch.bool, value.dtype) or value.dtype == torch.bool:
        return convert(value, dtype)
    if dtype not in _NAMES or value.dtype not in _NAMES:
        return Declined("a number of a dtype that is converted by torch alone")
    least, most = _ends(dtype)
    if not (dtype.is_signed or value.dtype.is_floating_point):
        least = -most  # negative integers wrap
    from_least, from_most = _ends(value.dtype)
    if least <= from_least and from_most <= most and not (value.dtype.is_floating_point > dtype.is_floating_point):
        return convert(value, dtype)
    if value.device.type != "cpu":
        return Declined("a number on a device, which eager reads, and refuses if it does not fit")
    if isinstance(value.expr, Const) and _fits(value.expr.value, least, most):
        return convert(value, dtype)
    wide = Value(value.expr).to(torch.float64 if value.dtype.is_floating_point else torch.int64)
    fits = (wide >= least) & (wide <= most)
    if dtype.is_floating_point and value.dtype.is_floating_point:
        fits = fits | equal(absolute(wide), math.inf) | isnan(wide)
    held = ctx.ref(ctx.realize(pure(value, fits.expr, torch.bool)))
    message = f"value cannot be converted to type {_NAMES[dtype]} without overflow"
    ctx.call(aten._assert_async.msg, (held, message), {}, [], None)
    return convert(value, dtype)


def _ends(dtype: torch.dtype) -> tuple[int | float, int | float]:
    """The least and the largest number that a dtype holds."""
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return limits.min, limits.max


def _fits(number: int | float, least: int | float, most: int | float) -> bool:
    return least <= number <= most or (isinstance(most, float) and not math.isfinite(number))
