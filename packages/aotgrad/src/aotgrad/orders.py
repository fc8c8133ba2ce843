"""The order in which the dimensions of a result lie in memory, also where torch's fakes are wrong about it.

Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from aotgrad.torch_versions import OpOverload, aten


def may_be_laid_out(args: Sequence[Any], result: torch.Tensor) -> bool:
    """Whether an operator and what it is taken apart into may lay out the result otherwise: of contiguous tensors both
    make contiguous ones.  Sizes that vary are left alone, because to look at their strides would fix them."""
    if result.dim() < 2 or result.layout is not torch.strided or not _known(result):
        return False
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.layout is torch.strided]
    return all(map(_known, tensors)) and not all(tensor.is_contiguous() for tensor in tensors)


def corrected(func: OpOverload, args: Sequence[Any], result: Any) -> Any:
    """What a fake kernel gave, laid out as the operator's own kernel does it."""
    rule = _CORRECTIONS.get(func)
    if rule is None or not _known(args[0]) or args[0].is_contiguous() or not args[0].numel():
        return result
    return rule(*args)


def _roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    if not dims:
        return x.contiguous()
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.size(dim)
        start = (size - shift) % size
        parts = [x.narrow(dim, start, size - start), x.narrow(dim, 0, start)]
        x = torch.cat(parts, dim) if start else x.clone()
    return x


_CORRECTIONS: dict[OpOverload, Callable[..., Any]] = {aten.roll.default: _roll}


def order_of(wanted: Any, found: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost to the innermost in memory where they are to be moved; None where nothing is to
    be done, or what is wanted has holes."""
    if not isinstance(wanted, torch.Tensor) or wanted.shape != found.shape or not wanted.numel():
        return None
    if _significant(wanted) == _significant(found):
        return None
    order = sorted(range(wanted.dim()), key=lambda dim: (-wanted.stride(dim), -wanted.shape[dim]))
    return order if wanted.permute(order).is_contiguous() else None


def _known(tensor: torch.Tensor) -> bool:
    return all(isinstance(number, int) for number in (*tensor.shape, *tensor.stride()))


def _significant(tensor: torch.Tensor) -> list[tuple[int, int]]:
    return [(dim, tensor.stride(dim)) for dim, size in enumerate(tensor.shape) if size != 1]
