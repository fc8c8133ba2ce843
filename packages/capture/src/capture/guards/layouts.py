"""Sizes and strides of tensors: what of them may change from call to call, and what a recorded graph relies on.

Relied on are tuples, one entry for a dimension: a number, None for what is open, and for strides also ``(k,)``, the
stride that steps past all of dimension k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

Relied = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class OpenLayout:
    """The dimensions whose size, and those whose stride, later calls may change."""

    sizes: frozenset[int] = frozenset()
    strides: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.sizes or self.strides)

    def __or__(self, other: OpenLayout) -> OpenLayout:
        return OpenLayout(self.sizes | other.sizes, self.strides | other.strides)


CLOSED = OpenLayout()


def has_windows(tensor: torch.Tensor) -> bool:
    """True if two places of a tensor are one place in memory, as in windows that overlap; expanded dimensions, whose
    stride is 0, do not count."""
    if tensor.layout is not torch.strided:
        return False
    reach = 0
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if step and size > 1:
            if step <= reach:
                return True
            reach += (size - 1) * step
    return False


def is_without_windows(tensor: torch.Tensor) -> bool:
    return not has_windows(tensor)


def may_get_windows(sizes: Relied, strides: Relied) -> bool:
    """True if a tensor that fits may have windows: what is open, or goes on from what is open, need not be apart."""
    if None in strides:
        return True
    return None in sizes and sum(isinstance(step, int) for step in strides) > 1


def varied(sizes: Relied, strides: Relied, tensor: torch.Tensor) -> OpenLayout:
    """The sizes and strides of a tensor that are other than they were relied on.

    Strides in another order do not count: they ask for a graph of their own.
    """
    if len(sizes) != tensor.dim():
        return CLOSED
    # `None` was open before and stays open: a dimension that varied once never becomes a constant again.
    found = frozenset(dim for dim, size in enumerate(sizes) if size is None or size != tensor.size(dim))
    steps = frozenset(dim for dim in range(tensor.dim()) if not _follows(dim, sizes, strides, tensor))
    return OpenLayout(found, steps if _same_order(strides, tensor) else frozenset())


def _follows(dim: int, sizes: Relied, strides: Relied, tensor: torch.Tensor) -> bool:
    """True if this stride is as it was, or still steps past the same dimension."""
    expected, actual = strides[dim], tensor.stride(dim)
    if isinstance(expected, tuple):
        return actual == _past(tensor.size(), tensor.stride(), expected[0])
    # A contiguous tensor's strides change with its sizes, and are no news: each steps past the next dimension.
    return expected in (None, actual) or any(
        expected == _past(sizes, strides, other) and actual == _past(tensor.size(), tensor.stride(), other)
        for other in range(len(sizes))
        if other != dim
    )


def _past(sizes: Sequence[object], strides: Sequence[Any], dim: int) -> int | None:
    """The stride that steps past all of a dimension, where its size and stride are known numbers."""
    known = isinstance(sizes[dim], int) and isinstance(strides[dim], int)
    return sizes[dim] * strides[dim] if known else None


def _same_order(strides: Relied, tensor: torch.Tensor) -> bool:
    """True if no two dimensions have changed places in memory; those of one element have no place in the order."""
    longer = [dim for dim in range(tensor.dim()) if tensor.size(dim) > 1]
    return all(_still_outside(dim, other, strides, tensor) for dim in longer for other in longer)


def _still_outside(dim: int, other: int, strides: Relied, tensor: torch.Tensor) -> bool:
    """True unless `dim` was further out in memory than `other` and is no longer."""
    outer, inner = strides[dim], strides[other]
    if outer == (other,):
        return tensor.stride(dim) > tensor.stride(other)
    both = isinstance(outer, int) and isinstance(inner, int)
    return not both or outer <= inner or tensor.stride(dim) > tensor.stride(other)
