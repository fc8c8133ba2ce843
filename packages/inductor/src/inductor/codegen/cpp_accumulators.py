"""What a reduction keeps while it runs, as types of ``reduce.h``."""

from __future__ import annotations

import torch

from inductor.codegen.cpp_strategy import has_scans, static_extent
from inductor.codegen.cpp_types import scalar_type
from inductor.ir.kernel import Loop, Reduce, Scan

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

LONG_REDUCTION = 32768
"""From here on a reduction is done in pieces, or its sums are split."""
SHORT_REDUCTION = 4096
"""What is no longer than this when it runs is done in one piece, where its length varies."""
LONGEST_IN_LANES = 1 << 20
"""As far as this the lanes of a piece have little enough to add."""


def is_long(loop: Loop) -> bool:
    """Whether one accumulator would lose digits, or one thread time."""
    extent = static_extent(loop.axes)
    return extent is None or extent >= LONG_REDUCTION


def is_split(statement: Reduce | Scan, loop: Loop, *, in_lanes: bool = False) -> bool:
    """Whether what is added up is kept in parts; ``in_lanes``: by accumulators that share a piece's row."""
    if not isinstance(statement, Reduce) or statement.kind != "sum" or not statement.dtype.is_floating_point:
        return False
    extent = static_extent(loop.axes)
    if in_lanes and not has_scans([loop]) and extent is not None and extent <= LONGEST_IN_LANES:
        return False
    return is_long(loop)


def accumulator_type(statement: Reduce | Scan, width: int | None, *, long: bool) -> str:
    """``width`` lanes of it, or a single one; ``long`` where sums are split."""

    def type_of(dtype: torch.dtype) -> str:
        if width is None:
            return scalar_type(dtype)
        return f"maskx{width}" if dtype == torch.bool else f"{scalar_type(dtype)}x{width}"

    name = "LongSum" if long else _NAMES[statement.kind]
    if statement.kind.startswith("arg"):
        return f"{name}<{type_of(statement.value.dtype)}, {type_of(statement.dtype)}>"
    return f"{name}<{type_of(statement.dtype)}>"
