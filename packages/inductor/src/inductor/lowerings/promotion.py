"""Promotion: the dtype that a mixture of tensors and Python numbers computes in.  Eager's rules, written once.

Tensors with dimensions decide first, then 0-d tensors, then Python numbers, each only by a higher category
(bool < integer < float).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch

from inductor.ir.index import Index
from inductor.lowerings.reals import Real
from inductor.lowerings.values import Tensor

Kind: TypeAlias = Literal["default", "float", "bool", "compare", "keep"]
"""``default``: the result has the promoted dtype; ``float``: integers become the default float dtype first;
``compare``: operands are promoted, the result is bool; ``bool``: likewise, after a conversion to bool; ``keep``: bool
arguments become int64."""

Operand: TypeAlias = "Tensor | Index | Real | bool | int | float"


def category(dtype: torch.dtype) -> int:
    """bool 0, integers 1, floats 2, complex 3."""
    if dtype == torch.bool:
        return 0
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else 1


def scalar_dtype(value: Index | Real | bool | int | float) -> torch.dtype:
    """The dtype that a Python number takes part in promotion with."""
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, float | Real):
        return torch.get_default_dtype()
    return torch.int64


def promote(operands: Sequence[Operand]) -> torch.dtype:
    """The dtype that the operands meet in."""
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    groups = (
        [tensor.dtype for tensor in tensors if tensor.ndim],
        [tensor.dtype for tensor in tensors if not tensor.ndim],
        [scalar_dtype(operand) for operand in operands if not isinstance(operand, Tensor)],
    )
    result: torch.dtype | None = None
    for group in groups:
        if not group:
            continue
        best = group[0]
        for dtype in group[1:]:
            best = torch.promote_types(best, dtype)
        if result is None:
            result = best
        elif category(best) > category(result):
            # A complex number beside float tensors is complex of their width: ``promote_types`` finds it.
            result = torch.promote_types(result, best) if category(best) == 3 else best
    if result is None:
        raise ValueError("nothing to promote")
    return result


def result_dtype(operands: Sequence[Operand], kind: Kind) -> tuple[torch.dtype, torch.dtype]:
    """(dtype to compute in, dtype of the result)."""
    common = promote(operands)
    if kind == "float" and category(common) < 2:
        common = torch.get_default_dtype()
    elif kind == "keep" and common == torch.bool:
        common = torch.int64
    elif kind == "bool":
        return common, torch.bool
    return common, torch.bool if kind == "compare" else common
