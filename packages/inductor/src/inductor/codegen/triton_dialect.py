"""The operators in Triton: the same table as for C++, in another language.

Functions without a prefix are in ``runtime/triton_math.py``; ``libdevice`` is the GPU's mathematics library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from inductor.codegen.expressions import ITSELF, Format, IndexStyle, Precedence, Text, call, infix, prefix, signed

ANY = "any"

INDEX_STYLE = IndexStyle(
    divide=infix("//", Precedence.MULTIPLY),
    modulo=infix("%", Precedence.MULTIPLY),
    floor_divide=call("floor_divide", 2),
    floor_modulo=call("modulo", 2),
)

DTYPES: dict[torch.dtype, str] = {
    torch.float32: "tl.float32",
    torch.float64: "tl.float64",
    torch.bfloat16: "tl.bfloat16",
    torch.float16: "tl.float16",
    torch.bool: "tl.int1",
    torch.int8: "tl.int8",
    torch.int16: "tl.int16",
    torch.int32: "tl.int32",
    torch.int64: "tl.int64",
    torch.uint8: "tl.uint8",
    torch.uint16: "tl.uint16",
    torch.uint32: "tl.uint32",
    torch.uint64: "tl.uint64",
}

_OR = infix("|", Precedence.OR, closed=True)
_AND = infix("&", Precedence.AND, closed=True)
_XOR = infix("^", Precedence.XOR, closed=True)
_ONE_OVER = Format("1.0 / {0}", Precedence.MULTIPLY, (Precedence.UNARY,))
_QUOTIENT = infix("/", Precedence.MULTIPLY)
_TRUNCATED_QUOTIENT = Format(f"libdevice.trunc({_QUOTIENT.template})", Precedence.ATOM, _QUOTIENT.demands)


def _compare(operator: str) -> Format:
    return Format(f"{{0}} {operator} {{1}}", Precedence.OR, (Precedence.ADD, Precedence.ADD))


def _library(*names: str, arity: int = 1) -> dict[str, dict[str, Format]]:
    return {name: {ANY: call(f"libdevice.{name}", arity)} for name in names}


FORMATS: Mapping[str, Mapping[str, Format]] = {
    # arithmetic
    "add": {ANY: infix("+", Precedence.ADD), "bool": _OR},
    "sub": {ANY: infix("-", Precedence.ADD), "bool": _XOR},
    "mul": {ANY: infix("*", Precedence.MULTIPLY), "bool": _AND},
    "div": {ANY: infix("/", Precedence.MULTIPLY), "float32": call("tl.div_rn", 2)},
    "neg": {ANY: prefix("-")},
    "abs": {ANY: call("tl.abs", 1)},
    "sign": {ANY: call("sign", 1), "bool": ITSELF},
    "floordiv": {ANY: call("floor_divide", 2), "float": call("floor_divide_floats", 2)},
    "truncdiv": {ANY: infix("//", Precedence.MULTIPLY), "float": _TRUNCATED_QUOTIENT},
    "mod": {ANY: call("modulo", 2), "float": call("modulo_floats", 2)},
    "fmod": {ANY: infix("%", Precedence.MULTIPLY), "float": call("libdevice.fmod", 2)},
    "maximum": {ANY: call("maximum", 2), "bool": _OR},
    "minimum": {ANY: call("minimum", 2), "bool": _AND},
    "fmax": {ANY: call("fmaximum", 2), "bool": _OR},
    "fmin": {ANY: call("fminimum", 2), "bool": _AND},
    "fma": {ANY: call("tl.fma", 3)},
    **_library("copysign", "nextafter", "atan2", "hypot", arity=2),
    # comparison
    "eq": {ANY: _compare("==")},
    "ne": {ANY: _compare("!=")},
    "lt": {ANY: _compare("<")},
    "le": {ANY: _compare("<=")},
    "gt": {ANY: _compare(">")},
    "ge": {ANY: _compare(">=")},
    "isnan": {ANY: call("is_nan", 1)},
    "isinf": {ANY: call("is_inf", 1)},
    "signbit": {ANY: Format("libdevice.signbit({0}) != 0", Precedence.OR, (Precedence.ANY,))},
    # logic
    "and": {ANY: _AND},
    "or": {ANY: _OR},
    "xor": {ANY: _XOR},
    "not": {ANY: prefix("~")},
    "shl": {ANY: call("shift_left", 2)},
    "shr": {ANY: call("shift_right", 2)},
    "where": {ANY: call("tl.where", 3)},
    # rounding
    "floor": {ANY: call("tl.floor", 1)},
    "ceil": {ANY: call("tl.ceil", 1)},
    "trunc": {ANY: call("libdevice.trunc", 1)},
    "round": {ANY: call("libdevice.nearbyint", 1)},
    # elementary
    **{name: {ANY: call(f"tl.{name}", 1)} for name in ("exp", "exp2", "log", "log2", "sin", "cos", "erf", "rsqrt")},
    "sqrt": {ANY: call("tl.sqrt", 1), "float32": call("tl.sqrt_rn", 1)},
    "sigmoid": {ANY: call("tl.sigmoid", 1), "float32": call("sigmoid_of_single", 1)},
    "erf_and_one": {ANY: call("erf_and_one", 1)},
    "tanh": {ANY: call("libdevice.tanh", 1), "float32": call("tanh_of_single", 1)},
    "reciprocal": {ANY: _ONE_OVER, "float32": Format("tl.div_rn(1.0, {0})", Precedence.ATOM, (Precedence.ANY,))},
    **_library(
        "expm1", "log10", "log1p", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
        "erfc", "erfinv", "lgamma",
    ),
    "digamma": {ANY: call("digamma", 1)},
    "pow": {ANY: call("libdevice.pow", 2), "int": call("integer_power", 2)},
    # conversion and indexing
    "wrapped": {ANY: call("wrap_index", 3)},
    "within": {ANY: call("check_index", 3)},
    # random
    "rand": {ANY: call("random_uniform", 2)},
    "randn": {ANY: call("random_normal", 2)},
    "randint64": {ANY: call("random_integer", 4)},
}  # fmt: skip
"""The format of every operator, by the dtype or the kind of its operands."""


def format_of(op: str, dtype: torch.dtype) -> Format:
    """The format for operands of a dtype: its own, its kind's, or the one for all."""
    entry = FORMATS[op]
    kind = "bool" if dtype == torch.bool else "float" if dtype.is_floating_point else "int"
    for candidate in (str(dtype).removeprefix("torch."), kind, ANY):
        if candidate in entry:
            return entry[candidate]
    raise KeyError(f"{op} has no form for {dtype}")


def literal(value: float | int | bool, dtype: torch.dtype) -> Text:
    """A number as Triton writes it."""
    if dtype == torch.bool:
        return Text("True" if value else "False")
    if not dtype.is_floating_point:
        return signed(str(int(value)), int(value) < 0)
    number = float(value)
    return signed(repr(number), math.copysign(1, number) < 0) if math.isfinite(number) else Text(f'float("{number}")')
