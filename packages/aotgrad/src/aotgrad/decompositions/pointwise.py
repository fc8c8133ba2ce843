"""Pointwise operators with more than one step.

Must not know: tracing.
"""

from __future__ import annotations

from typing import Any

import torch

from aotgrad.decompositions.registry import decomposition, narrow, wide
from aotgrad.torch_versions import aten


@decomposition(aten.addcmul.default)
def addcmul(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, value: object = 1) -> torch.Tensor:
    product = a * b if value == 1 else value * a * b
    return x + product


@decomposition(aten.lerp.Scalar)
def lerp_scalar(start: torch.Tensor, end: torch.Tensor, weight: Any) -> torch.Tensor:
    """Interpolates from the nearer end, so that both ends are met exactly."""
    s, e = wide(start), wide(end)
    if isinstance(weight, complex):
        return NotImplemented
    return narrow(s + weight * (e - s) if abs(weight) < 0.5 else e - (e - s) * (1 - weight), start)


@decomposition(aten.lerp.Tensor)
def lerp(start: torch.Tensor, end: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    if start.is_complex():
        return NotImplemented
    s, e, w = wide(start), wide(end), wide(weight)
    near = w.abs() < 0.5
    return narrow(torch.where(near, s, e) + torch.where(near, w, w - 1) * (e - s), start)


@decomposition(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(x: torch.Tensor, y: object, alpha: object = 1) -> torch.Tensor:
    return y + torch.neg(x if alpha == 1 else x * alpha)


@decomposition(aten.square.default)
def square(x: torch.Tensor) -> torch.Tensor:
    return x * x
