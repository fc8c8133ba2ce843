"""Nodes of an ATen graph: the type and sizes of their values, and the arguments of their calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def value_of(node: fx.Node) -> Any:
    return node.meta.get("val")


def dtype_of(node: fx.Node) -> torch.dtype:
    dtype = value_of(node).dtype
    assert isinstance(dtype, torch.dtype)
    return dtype


def sizes_of(node: fx.Node) -> list[int]:
    return [int(size) for size in value_of(node).shape]


def argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    """An argument of a call, however it was given."""
    if name in node.kwargs:
        return node.kwargs[name]
    return node.args[position] if len(node.args) > position else default


def promoted(*operands: Any) -> torch.dtype:
    """The type that torch computes in."""
    left, *others = [value_of(each) if isinstance(each, fx.Node) else each for each in operands]
    dtype = torch.result_type(left, others[0]) if others else left.dtype
    for other in others[1:]:
        dtype = torch.promote_types(dtype, other.dtype)
    return dtype
