"""Activation functions and their gradients.

Must not know: tracing.
"""

from __future__ import annotations

import math

import torch

from aotgrad.decompositions.registry import decomposition, narrow, wide
from aotgrad.torch_versions import aten

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715


@decomposition(aten.gelu.default)
def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    v = wide(x)
    if approximate == "tanh":
        gate = torch.tanh(_TANH_SCALE * (v + _TANH_CUBE * v * v * v))
    else:
        gate = torch.erf(v * math.sqrt(0.5))
    return narrow(0.5 * v * (1 + gate), x)


@decomposition(aten.gelu_backward.default)
def gelu_backward(grad: torch.Tensor, x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    g, v = wide(grad), wide(x)
    if approximate == "tanh":
        gate = torch.tanh(_TANH_SCALE * (v + _TANH_CUBE * v * v * v))
        slope = 0.5 * v * (1 - gate * gate) * _TANH_SCALE * (1 + 3 * _TANH_CUBE * v * v)
    else:
        gate = torch.erf(v * math.sqrt(0.5))
        slope = v * torch.exp(-0.5 * v * v) * (1 / math.sqrt(2 * math.pi))
    return narrow(g * (0.5 * (1 + gate) + slope), x)


@decomposition(aten.silu.default)
def silu(x: torch.Tensor) -> torch.Tensor:
    v = wide(x)
    return narrow(v * torch.sigmoid(v), x)


@decomposition(aten.silu_backward.default)
def silu_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    g, v = wide(grad), wide(x)
    gate = torch.sigmoid(v)
    return narrow(g * gate * (1 + v * (1 - gate)), x)


@decomposition(aten.mish_backward.default)
def mish_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    g, v = wide(grad), wide(x)
    gate = torch.tanh(torch.nn.functional.softplus(v))
    return narrow(g * (gate + v * torch.sigmoid(v) * (1 - gate * gate)), x)


@decomposition(aten.sigmoid_backward.default)
def sigmoid_backward(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    g, v = wide(grad), wide(y)
    return narrow(g * (v * (1 - v)).conj(), grad)


@decomposition(aten.tanh_backward.default)
def tanh_backward(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    g, v = wide(grad), wide(y)
    return narrow(g * (1 - v * v).conj(), grad)


@decomposition(aten.threshold_backward.default)
def threshold_backward(grad: torch.Tensor, x: torch.Tensor, threshold: float) -> torch.Tensor:
    return torch.where(x <= threshold, 0.0, grad)
