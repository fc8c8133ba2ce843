"""Torch's dtypes in C++, and the literals of their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from inductor.codegen.expressions import Text, signed

SCALARS: dict[torch.dtype, str] = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.bool: "bool",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
}
HALVES = frozenset({torch.float16, torch.bfloat16})
FLOATS = frozenset({torch.float32, torch.float64})
# C++ computes these in int; their results are brought back by hand.
PROMOTED = frozenset({torch.int8, torch.int16, torch.uint8, torch.uint16})


def scalar_type(dtype: torch.dtype) -> str:
    return SCALARS[dtype]


def vector_type(dtype: torch.dtype, lanes: int) -> str:
    """The C++ type of a vector: bools have masks, half types are vectors of their bits."""
    if dtype == torch.bool:
        return f"maskx{lanes}"
    return f"{'u16' if dtype in HALVES else SCALARS[dtype]}x{lanes}"


def literal(value: float | int | bool, dtype: torch.dtype) -> Text:
    """A number as C++ writes it."""
    if dtype == torch.bool:
        return Text("true" if value else "false")
    if dtype in FLOATS or dtype in HALVES:
        return _float_literal(float(value), "" if dtype == torch.float64 else "f")
    number = int(value)
    if dtype in PROMOTED:
        return Text(f"{SCALARS[dtype]}({number})")
    if number == _LOWEST.get(dtype):
        return Text(f"({number + 1}{_SUFFIXES.get(dtype, '')} - 1)")
    return signed(f"{number}{_SUFFIXES.get(dtype, '')}", number < 0)


_SUFFIXES: Mapping[torch.dtype, str] = {torch.int64: "L", torch.uint32: "u", torch.uint64: "ul"}
_LOWEST: Mapping[torch.dtype, int] = {torch.int64: -(2**63), torch.int32: -(2**31)}
"""The smallest numbers, whose digits without the sign are too large for C++."""


def _float_literal(value: float, suffix: str) -> Text:
    if math.isnan(value):
        return Text(f'__builtin_nan{suffix}("")')
    sign = "-" if value < 0 else ""
    if math.isinf(value):
        return signed(f"{sign}__builtin_inf{suffix}()", value < 0)
    if suffix and abs(value) > 3.4028235677973366e38:  # what torch makes of it too
        return signed(f"{sign}__builtin_inff()", value < 0)
    return signed(f"{value!r}{suffix}", math.copysign(1, value) < 0)
