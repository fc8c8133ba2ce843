"""Expansions that enlarge nothing, made plain views.

A write through a tensor that is spread comes back as a sum over its copies, to which functionalization takes the
difference between the new values and the old: of infinite and of huge ones that is no number.  Eager lets nobody write
where copies are, so where it does there is one of each.
Must not know: recording, gradients.
"""

from __future__ import annotations

from typing import Any

import torch

from aotgrad.tensors.symbols import is_same


def plainly(func: Any, *args: Any, **kwargs: Any) -> Any:
    """`func` of its operands; results without copies become views of another kind."""
    result = func(*args, **kwargs)
    if isinstance(result, torch.Tensor):
        return _view(args[0] if args else kwargs["input"], result)
    given = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return type(result)(map(_view, given, result))


def _view(spread: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    new = result.dim() - spread.dim()
    sizes = [1] * new + list(spread.shape)
    if not all(map(is_same, sizes, result.shape)):
        return result
    return spread[(None,) * new + (...,)]
