"""Normalisation layers and their gradients.

Means and deviations are kept in float32 for half precision inputs: backward reads them, and nothing else does.
Must not know: tracing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch

from aotgrad.decompositions.registry import decomposition, narrow, wide
from aotgrad.torch_versions import aten

Optional: TypeAlias = torch.Tensor | None


def _moments(x: torch.Tensor, dims: Sequence[int], eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, biased variance, and one over the deviation, with `dims` kept as ones."""
    mean = x.mean(dims, keepdim=True)
    variance = (x - mean).square().mean(dims, keepdim=True)
    return mean, variance, torch.rsqrt(variance + eps)


def _scaled(x: torch.Tensor, weight: Optional, bias: Optional) -> torch.Tensor:
    x = x if weight is None else x * wide(weight)
    return x if bias is None else x + wide(bias)


def _input_gradient(g: torch.Tensor, xhat: torch.Tensor, rstd: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """Gradient of normalising over `dims`, given that of the normalised value."""
    return rstd * (g - g.mean(dims, keepdim=True) - xhat * (g * xhat).mean(dims, keepdim=True))


@decomposition(aten.native_layer_norm.default)
def layer_norm(
    x: torch.Tensor, shape: Sequence[int], weight: Optional, bias: Optional, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A layer norm, its mean and one over its deviation."""
    v = wide(x)
    mean, _, rstd = _moments(v, list(range(-len(shape), 0)), eps)
    return narrow(_scaled((v - mean) * rstd, weight, bias), x), mean, rstd


@decomposition(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    shape: Sequence[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: Optional,
    bias: Optional,
    mask: Sequence[bool],
) -> tuple[Optional, Optional, Optional]:
    g, xhat = wide(grad), (wide(x) - mean) * rstd
    outer = list(range(x.dim() - len(shape)))
    # The input's gradient goes back through the weight; the weight's own is taken before.
    weighted = g if weight is None else g * wide(weight)
    dx = narrow(_input_gradient(weighted, xhat, rstd, list(range(-len(shape), 0))), x) if mask[0] else None
    dw = narrow(_summed(g * xhat, outer), weight) if mask[1] and weight is not None else None
    db = narrow(_summed(g, outer), bias) if mask[2] and bias is not None else None
    return dx, dw, db


def _summed(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    return x.sum(dims) if dims else x


def _per_channel(value: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A vector over the channels of `x`, shaped to broadcast with it."""
    return value.view(1, -1, *[1] * (x.dim() - 2))


def _normalised(
    x: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, weight: Optional, bias: Optional
) -> torch.Tensor:
    value = (wide(x) - _per_channel(mean, x)) * _per_channel(rstd, x)
    scale, shift = (None if p is None else _per_channel(p, x) for p in (weight, bias))
    return narrow(_scaled(value, scale, shift), x)


@decomposition(aten._native_batch_norm_legit_functional.default)
def batch_norm_with_statistics(
    x: torch.Tensor,
    weight: Optional,
    bias: Optional,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, ...]:
    """A batch norm with its running statistics as results, since the graph is functional."""
    if not training:
        return (*_by_running_statistics(x, weight, bias, running_mean, running_var, eps), running_mean, running_var)
    dims = [0, *range(2, x.dim())]
    mean, variance, rstd = (value.flatten() for value in _moments(wide(x), dims, eps))
    count = math.prod(x.shape[dim] for dim in dims)
    # torch normalises with the biased variance and keeps the unbiased one, which a single element does not have.
    unbiased = variance * (count / (count - 1)) if count != 1 else variance
    new_mean = momentum * mean + (1 - momentum) * running_mean
    new_var = momentum * unbiased + (1 - momentum) * running_var
    result = _normalised(x, mean, rstd, weight, bias)
    return result, mean, rstd, narrow(new_mean, running_mean), narrow(new_var, running_var)


@decomposition(aten.native_batch_norm.default)
def batch_norm(
    x: torch.Tensor,
    weight: Optional,
    bias: Optional,
    running_mean: Optional,
    running_var: Optional,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A batch norm without statistics to update; with them, the functional form above is what the graph has."""
    if training or running_mean is None or running_var is None:
        if running_mean is not None:
            return NotImplemented
        mean, _, rstd = (value.flatten() for value in _moments(wide(x), [0, *range(2, x.dim())], eps))
        return _normalised(x, mean, rstd, weight, bias), mean, rstd
    return _by_running_statistics(x, weight, bias, running_mean, running_var, eps)


def _by_running_statistics(
    x: torch.Tensor, weight: Optional, bias: Optional, mean: torch.Tensor, var: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The batch norm of evaluation, which keeps nothing for backward."""
    result = _normalised(x, wide(mean), torch.rsqrt(wide(var) + eps), weight, bias)
    nothing = x.new_empty((0,), dtype=wide(mean).dtype)
    return result, nothing, nothing


@decomposition(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: Optional,
    running_mean: Optional,
    running_var: Optional,
    mean: Optional,
    rstd: Optional,
    training: bool,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Optional, Optional, Optional]:
    dims = [0, *range(2, x.dim())]
    # The statistics were constants: nothing goes back through them.
    if not training:
        assert running_mean is not None
        assert running_var is not None
        mean, rstd = wide(running_mean), torch.rsqrt(wide(running_var) + eps)
    assert mean is not None
    assert rstd is not None
    g, scale = wide(grad), _per_channel(rstd, x)
    xhat = (wide(x) - _per_channel(mean, x)) * scale
    weighted = g if weight is None else g * _per_channel(wide(weight), x)
    dx = narrow(_input_gradient(weighted, xhat, scale, dims) if training else weighted * scale, x) if mask[0] else None
    like = x if weight is None else weight
    dw = narrow((g * xhat).sum(dims), like) if mask[1] else None
    db = narrow(g.sum(dims), like) if mask[2] else None
    return dx, dw, db


@decomposition(aten.native_group_norm.default)
def group_norm(
    x: torch.Tensor, weight: Optional, bias: Optional, n: int, c: int, inner: int, groups: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    # All channels and places of a group are one row.
    grouped = wide(x).reshape(n, groups, -1)
    mean, _, rstd = _moments(grouped, [2], eps)
    value = ((grouped - mean) * rstd).view(x.shape)
    scale, shift = (None if p is None else _per_channel(p, x) for p in (weight, bias))
    return narrow(_scaled(value, scale, shift), x), mean.view(n, groups), rstd.view(n, groups)
