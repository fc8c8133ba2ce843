"""The strides of views of other sizes along dimensions of one element, as torch's views in C++ give them.

Its fakes keep the stride that a dimension of one element has in the operand, where the operator itself counts one from
the dimensions inside of it.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import torch

_Numbers: TypeAlias = Sequence[int]


def laid_out_as_viewed(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """A fake of ``x.view(...)`` with the strides that the operator gives; sizes that vary are left as they are."""
    numbers = (*result.shape, *x.shape, *x.stride(), *result.stride())
    if not all(type(number) is int for number in numbers) or 1 not in result.shape:
        return result
    if result.dtype != x.dtype or not x.numel() or not x.dim():
        return result
    strides = _strides(result.shape, x)
    if strides is None or strides == list(result.stride()):
        return result
    return x.as_strided(result.shape, strides, x.storage_offset())


def _strides(shape: _Numbers, x: torch.Tensor) -> list[int] | None:
    """The strides along the dimensions of the view; None where it is no view."""
    strides, dim = [0] * len(shape), len(shape) - 1
    for step, elements in _blocks(x.shape, x.stride()):
        inside = 1
        while dim >= 0 and (inside < elements or shape[dim] == 1):
            strides[dim] = inside * step
            inside *= shape[dim]
            dim -= 1
        if inside != elements:
            return None
    return strides


def _blocks(sizes: _Numbers, strides: _Numbers) -> Iterator[tuple[int, int]]:
    """The runs of dimensions that lie like one, from the innermost: the step between their elements, and how many."""
    step, elements = strides[-1], 1
    for dim in reversed(range(len(sizes))):
        elements *= sizes[dim]
        if dim == 0 or (sizes[dim - 1] != 1 and strides[dim - 1] != elements * step):
            yield step, elements
            step, elements = strides[dim - 1], 1
