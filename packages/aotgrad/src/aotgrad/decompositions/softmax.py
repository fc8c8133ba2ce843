"""Softmax, log-softmax and their gradients.

Must not know: tracing.
"""

from __future__ import annotations

import torch

from aotgrad.decompositions.registry import decomposition, wide
from aotgrad.torch_versions import aten


def _shifted(x: torch.Tensor, dim: int) -> torch.Tensor:
    """`x` below zero, so that its exponential cannot overflow."""
    return x - x.amax(dim, keepdim=True) if x.numel() else x


@decomposition(aten._softmax.default)
def softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    e = torch.exp(_shifted(wide(x), dim))
    result = e / e.sum(dim, keepdim=True)
    return result if half_to_float else result.to(x.dtype)


@decomposition(aten._log_softmax.default)
def log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    shifted = _shifted(wide(x), dim)
    result = shifted - torch.log(torch.exp(shifted).sum(dim, keepdim=True))
    return result if half_to_float else result.to(x.dtype)


@decomposition(aten._softmax_backward_data.default)
def softmax_backward(grad: torch.Tensor, output: torch.Tensor, dim: int, input_dtype: torch.dtype) -> torch.Tensor:
    weighted = wide(grad) * wide(output)
    return (weighted - wide(output) * weighted.sum(dim, keepdim=True)).to(input_dtype)


@decomposition(aten._log_softmax_backward_data.default)
def log_softmax_backward(grad: torch.Tensor, output: torch.Tensor, dim: int, input_dtype: torch.dtype) -> torch.Tensor:
    g = wide(grad)
    return (g - torch.exp(wide(output)) * g.sum(dim, keepdim=True)).to(input_dtype)
