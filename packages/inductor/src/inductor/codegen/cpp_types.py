"""What torch's dtypes are called in C++, and how numbers of them are written."""

from __future__ import annotations

import math

import torch

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
    """Truth values have vectors of their own; halves are vectors of bits."""
    if dtype == torch.bool:
        return f"maskx{lanes}"
    return f"{'u16' if dtype in HALVES else SCALARS[dtype]}x{lanes}"


def literal(value: float | int | bool, dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "true" if value else "false"
    if dtype in FLOATS or dtype in HALVES:
        return _float_literal(float(value), "" if dtype == torch.float64 else "f")
    if dtype == torch.int64:
        return f"{int(value)}L" if value != -(2**63) else "(-9223372036854775807L - 1)"
    if dtype in PROMOTED:
        return f"{SCALARS[dtype]}({int(value)})"
    suffix = {torch.uint32: "u", torch.uint64: "ul"}.get(dtype, "")
    return f"{int(value)}{suffix}" if value != -(2**31) else "(-2147483647 - 1)"


def _float_literal(value: float, suffix: str) -> str:
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    if suffix and abs(value) > 3.4028235677973366e38:  # what torch makes of it too
        return f"{'-' if value < 0 else ''}__builtin_inff()"
    return f"{value!r}{suffix}"


def lowest(dtype: torch.dtype) -> str:
    """What a maximum starts from."""
    if dtype == torch.bool:
        return "false"
    return literal(-math.inf if dtype in FLOATS else torch.iinfo(dtype).min, dtype)


def highest(dtype: torch.dtype) -> str:
    """What a minimum starts from."""
    if dtype == torch.bool:
        return "true"
    return literal(math.inf if dtype in FLOATS else torch.iinfo(dtype).max, dtype)
