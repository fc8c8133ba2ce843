"""Marks on the sizes of a tensor by which a program says that they are dynamic, or must not become symbols.

The marks are attributes of the tensor, so they go where it goes and end with it.  Those that torch's own
``mark_dynamic`` and its kin leave are read too.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

_DYNAMIC = "_capture_dynamic_dims"
_STATIC = "_capture_static_dims"
_TORCHS_DYNAMIC = ("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices")
_TORCHS_STATIC = "_dynamo_static_indices"


def mark_dynamic(tensor: torch.Tensor, dims: int | Iterable[int]) -> None:
    """Marks sizes of a tensor as symbols from the first capture on, so that other sizes need no other version.

    Sizes of 0 and 1 stay numbers: they are other programs.
    """
    _refuse_other_things("mark_dynamic", tensor)
    _add(tensor, _DYNAMIC, dims)


def mark_static(tensor: torch.Tensor, dims: int | Iterable[int] | None = None) -> None:
    """Marks sizes (all, if none is named) that never become symbols: each value of theirs is captured anew."""
    _refuse_other_things("mark_static", tensor)
    _add(tensor, _STATIC, range(tensor.dim()) if dims is None else dims)


def _refuse_other_things(name: str, tensor: object) -> None:
    """Raises where the mark is not put on a tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} takes a tensor and the dimensions that are meant, not {type(tensor).__name__}")


def marked(tensor: torch.Tensor) -> tuple[frozenset[int], frozenset[int]]:
    """The dimensions marked as varying, and those marked as fixed."""
    attributes = tensor.__dict__
    if not attributes:
        return frozenset(), frozenset()
    dynamic = frozenset().union(*(attributes.get(name, ()) for name in (_DYNAMIC, *_TORCHS_DYNAMIC)))
    static = frozenset().union(*(attributes.get(name, ()) for name in (_STATIC, _TORCHS_STATIC)))
    return dynamic, static


def _add(tensor: torch.Tensor, attribute: str, dims: int | Iterable[int]) -> None:
    chosen = {dims} if isinstance(dims, int) else set(dims)
    for dim in chosen:
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(f"dimension {dim} is marked, and the tensor has {tensor.dim()}")
    kept: frozenset[int] = getattr(tensor, attribute, frozenset())
    setattr(tensor, attribute, kept | {dim % tensor.dim() for dim in chosen})
