"""Losses and their gradients.

Must not know: tracing.
"""

from __future__ import annotations

import torch

from aotgrad.decompositions.registry import decomposition, wide
from aotgrad.torch_versions import aten

_NONE, _MEAN, _SUM = 0, 1, 2


def _reduced(loss: torch.Tensor, reduction: int) -> torch.Tensor:
    if reduction == _NONE:
        return loss
    return loss.mean() if reduction == _MEAN else loss.sum()


@decomposition(aten.mse_loss.default)
def mse_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = _MEAN) -> torch.Tensor:
    return _reduced((x - target).square(), reduction)


@decomposition(aten.mse_loss_backward.default)
def mse_loss_backward(grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int) -> torch.Tensor:
    scale = 2.0 / x.numel() if reduction == _MEAN else 2.0
    return (x - target) * scale * grad


def _class_dim(x: torch.Tensor) -> int:
    return 0 if x.dim() < 2 else 1


def _picked(target: torch.Tensor, dim: int, ignore: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The target class of each row, and whether the row counts; for a row that does not, class 0."""
    index = target.unsqueeze(dim)
    counts = index != ignore
    return torch.where(counts, index, 0), counts


def _row_weights(
    weight: torch.Tensor | None, index: torch.Tensor, counts: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """The weight of each row's loss."""
    if weight is None:
        return counts.to(wide(x).dtype)
    rows = wide(weight).gather(0, index.flatten()).view(index.shape)
    return torch.where(counts, rows, 0.0)


@decomposition(aten.nll_loss_forward.default)
def nll_loss(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, reduction: int, ignore: int
) -> tuple[torch.Tensor, torch.Tensor]:
    dim = _class_dim(x)
    index, counts = _picked(target, dim, ignore)
    rows = _row_weights(weight, index, counts, x)
    # Rows that do not count stay out even where the value picked for them is infinite.
    loss = torch.where(counts, -wide(x).gather(dim, index) * rows, 0.0).squeeze(dim)
    if reduction == _NONE:
        return (loss if x.dim() > 1 else loss.view(())).to(x.dtype), x.new_zeros(())
    total = rows.sum()
    value = loss.sum() / total if reduction == _MEAN else loss.sum()
    return value.to(x.dtype), total.to(x.dtype)


@decomposition(aten.nll_loss_backward.default)
def nll_loss_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore: int,
    total: torch.Tensor,
) -> torch.Tensor:
    dim = _class_dim(x)
    index, counts = _picked(target, dim, ignore)
    rows = -_row_weights(weight, index, counts, x)
    arriving = wide(grad) / wide(total) if reduction == _MEAN else wide(grad)
    if reduction == _NONE and x.dim() > 1:
        arriving = arriving.unsqueeze(dim)
    # Where no row counts, the mean divides by zero: rows that do not count get zero all the same.
    value = torch.where(counts, rows * arriving, 0.0)
    # A comparison with each class instead of a scatter: it fuses with what comes before and after.
    classes = torch.arange(x.shape[dim], device=x.device)
    if dim == 1:
        classes = classes.unsqueeze(0)
    return torch.where(classes == index, value, 0.0).to(x.dtype)
