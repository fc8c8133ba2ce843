"""Accumulators of reductions, as types of ``reduce.h``."""

from __future__ import annotations

import torch

from inductor.codegen.cpp_types import scalar_type
from inductor.ir.kernel import Reduce, Scan
from inductor.ir.ops import POSITIONS

_NAMES = {
    "sum": "Sum",
    "prod": "Product",
    "max": "Max",
    "min": "Min",
    "any": "Any",
    "all": "All",
    "xor_sum": "Xor",
    "argmax": "ArgMax",
    "argmin": "ArgMin",
    "welford": "Welford",
}


def is_sum_of_floats(statement: Reduce | Scan) -> bool:
    """True for sums of floats, which may be kept in parts for the sake of their digits."""
    return isinstance(statement, Reduce) and statement.kind == "sum" and statement.dtype.is_floating_point


def accumulator_type(statement: Reduce | Scan, width: int | None, *, long: bool) -> str:
    """The type of an accumulator, for ``width`` lanes or a single one; ``long`` for sums kept in parts."""

    def type_of(dtype: torch.dtype) -> str:
        if width is None:
            return scalar_type(dtype)
        return f"maskx{width}" if dtype == torch.bool else f"{scalar_type(dtype)}x{width}"

    name = "LongSum" if long else _NAMES[statement.kind]
    if statement.kind in POSITIONS:
        return f"{name}<{type_of(statement.value.dtype)}, {type_of(statement.dtype)}>"
    return f"{name}<{type_of(statement.dtype)}>"
