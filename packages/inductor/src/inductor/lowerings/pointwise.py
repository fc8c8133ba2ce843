"""Pointwise operators: each element is computed from the elements at the same place.  Data rows; promotion is done
once.

A row names the operator, how its operands promote and its formula.  The first ``operands`` arguments take part in
promotion and broadcasting; the rest are parameters of the formula.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from inductor.ir.expr import Apply, Const, cast
from inductor.ir.index import Index
from inductor.lowerings.algebra import (
    Number,
    Value,
    absolute,
    call,
    equal,
    isnan,
    rsqrt,
    sqrt,
    where,
)
from inductor.lowerings.context import Context
from inductor.lowerings.creation import filled
from inductor.lowerings.fillers import filler
from inductor.lowerings.promotion import Kind, category, promote, result_dtype
from inductor.lowerings.reals import Real
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.sizes import refuse_division_by_zero
from inductor.lowerings.values import (
    HALF,
    Tensor,
    as_index_value,
    as_stored,
    broadcast_sizes,
    broadcast_to,
    common_device,
    compute_dtype,
    convert,
    number,
    promoted,
    pure,
    representable,
)
from inductor.torch_versions import OpOverload, aten

Formula = Callable[..., Value]
INF = math.inf
UNKNOWN = "a parameter that is known only when it runs"
"""The reason for leaving a call with a symbolic parameter to torch."""
EVERYWHERE, ON_GPUS = ("cpu", "cuda"), ("cuda",)


def elementwise(
    operands: Sequence[Any],
    formula: Formula,
    kind: Kind = "default",
    *,
    jumps: bool = False,
    wide: Collection[str] = (),
) -> Tensor | Declined:
    """Applies ``formula`` to promoted, broadcast operands.

    A formula that ``jumps``, as comparisons do, gets half precision rounded as memory holds it.  ``wide`` are the kinds
    of devices where eager takes a number beside half precision as it is; elsewhere it rounds the number first.
    """
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    if any(tensor.dtype.is_complex for tensor in tensors) or any(isinstance(operand, complex) for operand in operands):
        return Declined("complex numbers")
    # Constants and numbers of the host's count for any device.
    if (device := common_device(tensors)) is None:
        return Declined("operands on several devices")
    compute, dtype = result_dtype(operands, kind)
    sizes = broadcast_sizes(tensor.sizes for tensor in tensors)
    if jumps or kind in ("compare", "bool"):
        operands = [as_stored(operand) if isinstance(operand, Tensor) else operand for operand in operands]
    # On CPUs eager takes only a second operand as it is.
    as_they_are = (device.type in wide and (device.type != "cpu" or place > 0) for place in range(len(operands)))
    # Every operand arrives in the dtype that arithmetic happens in; the result is cast back, which for half types
    # rounds nothing here: that is the store's.
    values = [
        _operand(operand, sizes, compute, as_it_is) for operand, as_it_is in zip(operands, as_they_are, strict=True)
    ]
    result = formula(*values)
    return Tensor(sizes, dtype, device, cast(result.expr, compute_dtype(dtype)))


def _operand(operand: Any, sizes: Sequence[Index], dtype: torch.dtype, wide: bool = False) -> Value:
    """An operand in the dtype that arithmetic on ``dtype`` happens in; what has no dimensions may stay ``wide``."""
    if isinstance(operand, Tensor):
        whole = broadcast_to(operand, sizes)
        # Beside half precision an operand of another dtype is rounded to it first, as eager converts whole tensors
        # before it computes; what has no dimensions it reads as a number, which may stay ``wide``.
        into_half = dtype in HALF and operand.dtype != dtype and (operand.ndim or not wide)
        return Value((convert(whole, dtype) if into_half else pure(whole, promoted(whole, dtype))).expr)
    if isinstance(operand, Index):
        # A size that is a quotient would have to raise as Python does.
        refuse_division_by_zero(operand)
        return Value(as_index_value(operand, compute_dtype(dtype)))
    if isinstance(operand, Real):
        return Value(cast(operand.expr, compute_dtype(dtype)))
    as_it_is = wide or dtype not in HALF
    return Value(number(operand if as_it_is else representable(operand, dtype), compute_dtype(dtype)))


def row(
    *overloads: OpOverload,
    kind: Kind = "default",
    operands: int = 1,
    jumps: bool = False,
    wide: Collection[str] = (),
) -> Callable[[Formula], Formula]:
    """Registers a formula as the meaning of pointwise operators."""

    def register(formula: Formula) -> Formula:
        def lower(ctx: Context, *args: object, **kwargs: object) -> Tensor | Declined:
            # Parameters are numbers in the text of a kernel, and have to be known while it is printed.
            if any(isinstance(given, Index) for given in (*args[operands:], *kwargs.values())):
                return Declined(UNKNOWN)
            parameters = functools.partial(_with_parameters, formula, args[operands:], kwargs)
            return elementwise(args[:operands], parameters, kind, jumps=jumps, wide=wide)

        lowering(*overloads)(lower)
        return formula

    return register


def _with_parameters(formula: Formula, args: Sequence[object], kwargs: dict[str, object], *values: Value) -> Value:
    return formula(*values, *args, **kwargs)


# -- one operand, one operator of the table ---------------------------------------------------------------------------

_ONE_OPERAND: tuple[tuple[OpOverload, Kind, str], ...] = (
    *((getattr(aten, name).default, "float", name) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
        "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma",
        "sigmoid", "reciprocal",
    )),
    (aten.neg.default, "default", "neg"),
    (aten._neg_view.default, "default", "neg"),  # what kernels read must not be negated by torch once more
    (aten.abs.default, "default", "abs"),
    (aten.bitwise_not.default, "default", "not"),
)  # fmt: skip
"""Columns: the operator, how its operand promotes ("float": whole numbers become floats first), its name in
``ir/ops``."""
for _overload, _kind, _op in _ONE_OPERAND:
    row(_overload, kind=_kind)(functools.partial(call, _op))

for _name in ("floor", "ceil", "trunc", "round"):

    @row(getattr(aten, _name).default, jumps=True)
    # ``_name`` is bound by the default: the loop goes on.
    def _rounding(x: Value, op: str = _name) -> Value:
        return call(op, x) if x.dtype.is_floating_point else x


# -- two operands, one operator of the table --------------------------------------------------------------------------

_TWO_OPERANDS: tuple[tuple[str, Kind, str], ...] = (
    ("eq", "compare", "eq"), ("ne", "compare", "ne"), ("lt", "compare", "lt"), ("le", "compare", "le"),
    ("gt", "compare", "gt"), ("ge", "compare", "ge"),
    ("bitwise_and", "default", "and"), ("bitwise_or", "default", "or"), ("bitwise_xor", "default", "xor"),
)  # fmt: skip
"""Columns: the operator's name (of its overloads for tensors and for numbers), its promotion, its name in
``ir/ops``."""
for _name, _kind, _op in _TWO_OPERANDS:
    row(getattr(aten, _name).Tensor, getattr(aten, _name).Scalar, kind=_kind, operands=2)(functools.partial(call, _op))

row(aten.mul.Tensor, aten.mul.Scalar, operands=2, wide=EVERYWHERE)(functools.partial(call, "mul"))

for _overload, _op in (
    (aten.__and__.Tensor, "and"), (aten.__and__.Scalar, "and"), (aten.__or__.Tensor, "or"),
    (aten.__or__.Scalar, "or"), (aten.__xor__.Tensor, "xor"), (aten.__xor__.Scalar, "xor"),
    (aten.bitwise_left_shift.Tensor, "shl"), (aten.bitwise_left_shift.Tensor_Scalar, "shl"),
    (aten.bitwise_right_shift.Tensor, "shr"), (aten.bitwise_right_shift.Tensor_Scalar, "shr"),
    (aten.__lshift__.Tensor, "shl"), (aten.__lshift__.Scalar, "shl"), (aten.__rshift__.Tensor, "shr"),
    (aten.__rshift__.Scalar, "shr"),
):  # fmt: skip
    row(_overload, operands=2)(functools.partial(call, _op))

for _overload, _op in (
    (aten.atan2.default, "atan2"),
    (aten.copysign.Tensor, "copysign"),
    (aten.copysign.Scalar, "copysign"),
):
    row(_overload, kind="float", operands=2)(functools.partial(call, _op))

row(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor, kind="float", operands=2, wide=EVERYWHERE)(
    functools.partial(call, "div")
)

row(aten.hypot.default, operands=2)(functools.partial(call, "hypot"))


# -- arithmetic -------------------------------------------------------------------------------------------------------


def _sum(*overloads: OpOverload, minus: bool = False) -> Callable[[Formula], Formula]:
    """Registers a formula of two operands and a factor, which on CPUs is rounded as numbers beside tensors are.

    What is taken away is added with the factor's opposite, as in eager: that of a whole zero is no zero with a sign.
    """

    def register(formula: Formula) -> Formula:
        def lower(ctx: Context, x: Any, y: Any, alpha: Any = 1) -> Tensor | Declined:
            if isinstance(alpha, Index):
                return Declined(UNKNOWN)
            if minus and (_is_boolean(x) or _is_boolean(y)):
                return Declined("a boolean operand, which eager refuses to subtract")
            # ``rsub`` and sums with a number may have the tensor on either side.
            placed = x if isinstance(x, Tensor) else y
            alpha = -alpha if minus else alpha
            if isinstance(alpha, int | float) and placed.device.type == "cpu":
                alpha = representable(alpha, promote((x, y)))
            return elementwise((x, y), functools.partial(formula, alpha=alpha), wide=ON_GPUS)

        lowering(*overloads)(lower)
        return formula

    return register


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, Tensor) and value.dtype == torch.bool)


def _plus_product(x: Value, a: Value, b: Value | Number) -> Value:
    """``x + a * b``, which floats round once: a product that would overflow need not lose the sum."""
    return call("fma", a, b, x) if x.dtype.is_floating_point else x + a * b


@_sum(aten.add.Tensor, aten.add.Scalar)
def add(x: Value, y: Value, alpha: Number = 1) -> Value:
    return x + y if alpha == 1 else _plus_product(x, y, alpha)


@_sum(aten.sub.Tensor, aten.sub.Scalar, minus=True)
def sub(x: Value, y: Value, alpha: Number = -1) -> Value:
    return x - y if alpha == -1 else _plus_product(x, y, alpha)


@_sum(aten.rsub.Tensor, aten.rsub.Scalar, minus=True)
def rsub(x: Value, y: Value, alpha: Number = -1) -> Value:
    return sub(y, x, alpha)


@row(aten.square.default)
def square(x: Value) -> Value:
    return x * x


@row(aten.sign.default, jumps=True)
def sign(x: Value) -> Value:
    return x if x.dtype == torch.bool else call("sign", x)


@row(aten.sgn.default, jumps=True)
def sgn(x: Value) -> Value:
    return sign(x)


@row(aten.frac.default, jumps=True)
def frac(x: Value) -> Value:
    return x - call("trunc", x)


@row(aten.positive.default)
def positive(x: Value) -> Value:
    return x


@row(aten.addcmul.default, operands=3)
def addcmul(x: Value, a: Value, b: Value, value: Number = 1) -> Value:
    return _plus_product(x, a if value == 1 else a * value, b)


@row(aten.addcdiv.default, operands=3)
def addcdiv(x: Value, a: Value, b: Value, value: Number = 1) -> Value:
    return x + (a * value) / b


@row(aten.lerp.Scalar, operands=2)
def lerp_scalar(start: Value, end: Value, weight: float) -> Value:
    step = end - start
    # As ``lerp`` below, with the choice made while it is compiled.
    return call("fma", step, weight, start) if abs(weight) < 0.5 else call("fma", step, weight - 1.0, end)


@row(aten.lerp.Tensor, operands=3)
def lerp(start: Value, end: Value, weight: Value) -> Value:
    """Interpolates from the nearer end, rounded once: what lies between the ends of a dtype must not leave it on the
    way."""
    near = absolute(weight) < 0.5
    return call("fma", end - start, where(near, weight, weight - 1.0), where(near, start, end))


@lowering(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(ctx: Context, x: Tensor, y: Any, rounding_mode: str | None = None) -> Tensor | Declined:
    if rounding_mode is None:
        return elementwise((x, y), functools.partial(call, "div"), "float", wide=EVERYWHERE)
    if _may_divide_by_zero(x, y):
        return Declined("an integer division raises where the divisor is zero")
    dtype = promote((x, y))
    # Of floats not floor(x / y): the quotient may round up to a whole number that it does not reach (``ir/ops``).
    if rounding_mode == "floor":
        formula = functools.partial(call, "floordiv")
    elif dtype in HALF:  # the quotient is a number of that dtype before it is cut off
        formula = functools.partial(_truncated_quotient, dtype)
    else:
        formula = functools.partial(call, "truncdiv")
    return elementwise((x, y), formula, jumps=True, wide=EVERYWHERE)


def _truncated_quotient(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """A quotient in half precision, rounded to it before it is cut off."""
    return call("trunc", Value(Apply("rounded", ((x / y).expr,), torch.float32, dtype)))


@lowering(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(ctx: Context, x: Tensor, y: object) -> Tensor | Declined:
    return div_mode(ctx, x, y, "floor")


@lowering(aten.remainder.Tensor, aten.remainder.Scalar)
def remainder(ctx: Context, x: Tensor, y: object) -> Tensor | Declined:
    if _may_divide_by_zero(x, y):
        return Declined("an integer division raises where the divisor is zero")
    return elementwise((x, y), functools.partial(call, "mod"), jumps=True)


@lowering(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(ctx: Context, x: Tensor, y: object) -> Tensor | Declined:
    if _may_divide_by_zero(x, y):
        return Declined("an integer division raises where the divisor is zero")
    return elementwise((x, y), functools.partial(call, "fmod"), jumps=True)


def _may_divide_by_zero(x: Tensor, y: Any) -> bool:
    """Integers trap on zero, and the smallest one divided by -1 overflows; floats do neither."""
    dtype = promote((x, y))
    # A number that the dtype does not hold is what is left of it there: 256 is zero among bytes.
    there = 2 ** (8 * dtype.itemsize)
    return category(dtype) < 2 and (not isinstance(y, int) or y % there in (0, there - 1))


@lowering(aten.nextafter.default)
def nextafter(ctx: Context, x: Tensor, y: Tensor) -> Tensor | Declined:
    if promote((x, y)) in HALF:
        return Declined("the next number in half precision")
    return elementwise((x, y), functools.partial(call, "nextafter"))


# -- powers -----------------------------------------------------------------------------------------------------------

_POWERS: dict[float, Formula] = {
    0.5: sqrt,
    -0.5: rsqrt,
    2.0: square,
    3.0: lambda x: x * x * x,
    -1.0: lambda x: call("reciprocal", x),
    -2.0: lambda x: call("reciprocal", x * x),
}
"""Exponents that have a cheaper formula, which is eager's as well; others are ``pow``."""


@lowering(aten.pow.Tensor_Scalar)
def pow_scalar(ctx: Context, x: Tensor, exponent: Any) -> Tensor | Declined:
    if promote((x, exponent)) is torch.bool:  # True is one, False is zero, whose power of zero is one
        return elementwise((x,), lambda base: base if exponent else equal(base, base))
    plain = isinstance(exponent, int | float) and promote((x, exponent)).is_floating_point
    # Of float16 eager's kernels for CPUs take no roots for powers, which differ for -0 and -inf.
    # The exponent takes part in promotion (an integer tensor to the power of 0.5 is float), and is not computed with.
    if plain and exponent in _POWERS and not (x.dtype == torch.float16 and x.device.type == "cpu" and exponent % 1):
        formula = _POWERS[exponent]
        return elementwise((x, exponent), lambda base, _: formula(base))
    if category(promote((x, exponent))) < 2 and (not isinstance(exponent, int) or exponent < 0):
        return Declined("negative powers of integers raise")
    return elementwise((x, exponent), functools.partial(call, "pow"))


@lowering(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power(ctx: Context, x: Any, exponent: Any) -> Tensor | Declined:
    # Whether an exponent is negative shows only in the data.
    if category(promote((x, exponent))) < 2:
        return Declined("negative powers of integers raise")
    return elementwise((x, exponent), functools.partial(call, "pow"))


# -- comparisons and logic --------------------------------------------------------------------------------------------


@row(aten.logical_not.default, kind="bool")
def logical_not(x: Value) -> Value:
    return ~x.to(torch.bool)


@row(aten.logical_and.default, kind="bool", operands=2)
def logical_and(x: Value, y: Value) -> Value:
    return x.to(torch.bool) & y.to(torch.bool)


@row(aten.logical_or.default, kind="bool", operands=2)
def logical_or(x: Value, y: Value) -> Value:
    return x.to(torch.bool) | y.to(torch.bool)


@row(aten.logical_xor.default, kind="bool", operands=2)
def logical_xor(x: Value, y: Value) -> Value:
    return x.to(torch.bool) ^ y.to(torch.bool)


def _no(x: Value) -> Value:
    return Value(Const(False, torch.bool))


@row(aten.isnan.default, kind="bool")
def is_nan(x: Value) -> Value:
    return isnan(x) if x.dtype.is_floating_point else _no(x)


@row(aten.isinf.default, kind="bool")
def is_inf(x: Value) -> Value:
    return call("isinf", x) if x.dtype.is_floating_point else _no(x)


@row(aten.isfinite.default, kind="bool")
def is_finite(x: Value) -> Value:
    # NaN is not below anything.
    return absolute(x) < INF if x.dtype.is_floating_point else ~_no(x)


@row(aten.isposinf.default, kind="bool")
def is_positive_infinity(x: Value) -> Value:
    return equal(x, INF) if x.dtype.is_floating_point else _no(x)


@row(aten.isneginf.default, kind="bool")
def is_negative_infinity(x: Value) -> Value:
    return equal(x, -INF) if x.dtype.is_floating_point else _no(x)


@row(aten.signbit.default, kind="bool")
def signbit(x: Value) -> Value:
    if x.dtype.is_floating_point:
        return call("signbit", x)
    return x < 0 if x.dtype != torch.bool else _no(x)


@lowering(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where_(ctx: Context, condition: Tensor, then: object, other: object) -> Tensor | Declined:
    if condition.dtype != torch.bool:
        return Declined("a condition that is not bool")
    return _choice(condition, then, other)


def _choice(condition: Tensor, then: Any, other: Any) -> Tensor | Declined:
    """``where`` of operands that take part in promotion, but for the condition."""
    if any(isinstance(v, complex) or (isinstance(v, Tensor) and v.dtype.is_complex) for v in (then, other)):
        return Declined("complex numbers")
    dtype = promote((then, other))
    tensors = [value for value in (condition, then, other) if isinstance(value, Tensor)]
    if (device := common_device(tensors)) is None:
        return Declined("operands on several devices")
    sizes = broadcast_sizes(tensor.sizes for tensor in tensors)
    # The condition takes no part in promotion, only in shape and device.
    picked = where(
        Value(broadcast_to(condition, sizes).expr), _operand(then, sizes, dtype), _operand(other, sizes, dtype)
    )
    return Tensor(sizes, dtype, device, picked.expr)


@lowering(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(ctx: Context, x: Tensor, mask: Tensor, value: object) -> Tensor | Declined:
    if mask.dtype != torch.bool:
        return Declined("a mask that is not bool")
    if x.dtype.is_complex or isinstance(value, complex):
        return Declined("complex numbers")
    # The fill value never promotes ``x``: it is converted to its dtype.
    filling: Tensor | Declined
    if isinstance(value, Tensor):
        filling = filler(ctx, value, x.dtype)
    else:
        filling = Tensor((), x.dtype, x.device, _operand(value, (), x.dtype).expr)
    return filling if isinstance(filling, Declined) else _choice(mask, filling, x)


# -- casts and copies -------------------------------------------------------------------------------------------------


@lowering(aten.round.decimals)
def round_decimals(ctx: Context, x: Tensor, *, decimals: int = 0) -> Tensor | Declined:
    """Rounds halves to the even digit at ``decimals`` places right of the point, or left of it where negative."""
    if not x.dtype.is_floating_point:
        return Declined("numbers that are not real floats")
    x, power = as_stored(x), 10.0 ** abs(decimals)
    if decimals < 0:
        return elementwise((x,), lambda v: call("round", v / power) * power)
    return elementwise((x,), lambda v: call("round", v * power) / power if decimals else call("round", v))


@lowering(aten._to_copy.default)
def to_copy(ctx: Context, x: Tensor, dtype: torch.dtype | None = None, **kwargs: object) -> Tensor | Declined:
    device = kwargs.get("device")
    if device is not None and isinstance(x, Tensor) and torch.device(device) != x.device:
        return Declined("a copy between devices")
    if kwargs.get("layout") not in (None, torch.strided):
        return Declined("a layout that is not strided")
    if not isinstance(x, Tensor):  # a number in the place of a tensor without dimensions, as ``vmap`` has them
        return filled(ctx, (), x, dtype, device)
    target = dtype or x.dtype
    if target.is_complex or x.dtype.is_complex:
        return Declined("complex numbers")
    # A cast from half precision to whole numbers cuts off, and must see the number that memory would hold.
    source = as_stored(x) if x.dtype in HALF and not target.is_floating_point else x
    return pure(x, convert(source, target).expr, target)


@lowering(torch.ops.prims.convert_element_type.default)
def convert_element_type(ctx: Context, x: Tensor, dtype: torch.dtype) -> Tensor | Declined:
    return to_copy(ctx, x, dtype)


@lowering(aten.clone.default, aten.lift_fresh_copy.default)
def clone(ctx: Context, x: Tensor, memory_format: object = None) -> Tensor:
    # A value without a base: it gets memory of its own where somebody needs it, and is free where nobody does.
    return pure(x, x.expr)


@lowering(aten.copy.default)
def copy(ctx: Context, x: Tensor, source: Any, non_blocking: bool = False) -> Tensor | Declined:
    if not isinstance(source, Tensor):
        return Declined("a number copied into a tensor")
    if x.device != source.device or x.dtype.is_complex or source.dtype.is_complex:
        return Declined("a copy between devices, or complex numbers")
    return pure(x, broadcast_to(convert(source, x.dtype), x.sizes).expr)


@lowering(aten.view.dtype)
def view_dtype(ctx: Context, x: Tensor, dtype: torch.dtype) -> Tensor | Declined:
    return Declined("a view of the same memory in another dtype")
