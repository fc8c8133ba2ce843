"""Tensors that are held with their versions, as autograd holds what it saves: who asks for them finds writes refused.

Must not know: graphs, inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import Node

from aotgrad.torch_versions import DisableTorchDispatch

_BESIDE = "aotgrad: saved beside"
"""The key in a node's metadata under which ``save_beside`` leaves what it saves."""


def save_beside(result: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Saves tensors for the backward of a result, as eager's operator does in whose place the result was computed
    otherwise: backward is refused where one was written to since."""
    node = result.grad_fn
    if node is None:
        return
    with DisableTorchDispatch():  # nothing of this belongs to a graph
        holder = keep(tensors)
    # The tensor, which keeps its node: by torch 2.11 a node of Python's lets go of what it saved with the last one.
    node.metadata[_BESIDE] = holder
    saving: Any = holder.grad_fn

    def compare_versions(_: torch.Tensor) -> None:
        saving.saved_tensors  # noqa: B018 - asking compares

    result.register_hook(compare_versions)


def saved_beside(node: Node) -> Any:
    """The node that holds what was saved beside another one; None where nothing was."""
    holder = node.metadata.get(_BESIDE)
    return None if holder is None else holder.grad_fn


def keep(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A tensor whose autograd node holds these tensors with their versions."""
    with torch.enable_grad():
        holder: torch.Tensor = _Holder.apply(torch.empty(0, requires_grad=True), tensors)
    return holder


class _Holder(torch.autograd.Function):
    """A function that saves tensors and computes nothing."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, values: Sequence[torch.Tensor]) -> torch.Tensor:
        ctx.save_for_backward(*values)
        return torch.empty(0)
