"""Writes to a tensor of what is computed from the same tensor: at other elements than the one that is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

SIZES = (12, 37)
"""More than one vector of a processor holds: what is read and written within one is right by chance."""


def _half(x: torch.Tensor) -> Any:
    return 0.5 if x.is_floating_point() else 2


def _symmetric(x: torch.Tensor) -> None:
    x.copy_(x + x.T if x.dtype == torch.bool else (x + x.T) / 2)


def _laplace(x: torch.Tensor) -> None:
    x[1:-1, 1:-1] = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]


def _interleaved(x: torch.Tensor) -> None:
    count = len(x) // 2
    x[::2][:count].copy_(x[1::2][:count].flip(0))


def _halves(x: torch.Tensor) -> None:
    half = x.shape[1] // 2
    x.copy_(torch.cat([x[:, half:], x[:, :half]], 1))


WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "flipped": lambda x: x.copy_(x.flip(0)),
    "flipped within rows": lambda x: x.copy_(x.flip(-1)),
    "rolled": lambda x: x.copy_(x.roll(1)),
    "rolled by columns": lambda x: x.copy_(x.roll(-2, 1)),
    "turned": lambda x: x.copy_(x.rot90()),
    "transposed": lambda x: x.copy_(x.t().clone()),
    "added to what is flipped": lambda x: x.logical_xor_(x.flip(0)) if x.dtype == torch.bool else x.add_(x.flip(0)),
    "mean with the other order": lambda x: x.lerp_(x.flip(0), 0.5) if x.is_floating_point() else x.mul_(x.flip(1)),
    "by out": lambda x: torch.maximum(x.flip(0), x.roll(1, 0), out=x),
    "masked by another row": lambda x: x.masked_fill_(x.roll(1, 0) > _half(x), 1),
    "chosen": lambda x: x.copy_(torch.where(x > x.flip(0), x, x.roll(1, 1))),
    "symmetric": _symmetric,
    "a row on": lambda x: x[1:].copy_(x[:-1].clone()),
    "a row back": lambda x: x[:-1].copy_(x[1:].clone()),
    "rows by assignment": lambda x: x.__setitem__(slice(2, None), x[:-2] * 2),
    "stencil": _laplace,
    "every other": _interleaved,
    "one row to all": lambda x: x.copy_(x[3].expand_as(x).clone()),
    "diagonal to a row": lambda x: x[0].copy_(x.diagonal().clone()),
    "row to the diagonal": lambda x: x.diagonal().copy_(x[1].clone()),
    "joined": lambda x: x.copy_(torch.cat([x[1:], x[:1]])),
    "halves exchanged": _halves,
    "stacked": lambda x: x.copy_(torch.stack([x[i] for i in (1, 0, *range(2, len(x)))])),
    "padded": lambda x: x.copy_(F.pad(x[1:], (0, 0, 0, 1))),
    "flat": lambda x: x.view(-1).copy_(x.t().reshape(-1)),
    "twice": lambda x: x.copy_(x.flip(0)).copy_(x.roll(1, 1)),
    "gathered": lambda x: x.copy_(x[torch.arange(len(x) - 1, -1, -1)]),
    "summed along": lambda x: x.copy_(x.cumsum(0)),
    "by columns' sums": lambda x: x.copy_(x.sum(0).expand_as(x)),
}


def every(tensors: Sequence[torch.Tensor]) -> None:
    """All of them in one graph, each to a tensor of its own."""
    for write, x in zip(WRITES.values(), tensors, strict=True):
        write(x)


def after_one_another(tensors: Sequence[torch.Tensor]) -> None:
    """All of them, each after another one to the same tensor."""
    writes = list(WRITES.values())
    for number, x in enumerate(tensors):
        writes[number - 1](x)
        writes[number](x)


def compared(
    programs: Callable[[Sequence[torch.Tensor]], None],
    compiled: Callable[..., Any],
    dtype: torch.dtype,
    sizes: Sequence[int] = SIZES,
    device: str = "cpu",
) -> None:
    """The compiled programs leave what eager leaves, but for roundings."""
    for size in sizes:
        given = [torch.randint(-4, 5, (size, size), device=device).to(dtype) for _ in WRITES]
        expected, found = ([tensor.clone() for tensor in given] for _ in range(2))
        programs(expected)
        compiled(found)
        for name, one, other in zip(WRITES, expected, found, strict=True):
            close = torch.allclose(other.double(), one.double(), rtol=2e-2, atol=0, equal_nan=True)
            assert close, (name, size, dtype)
