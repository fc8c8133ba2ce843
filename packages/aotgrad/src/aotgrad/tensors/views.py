"""View chains: the view operators that lead from a base to a tensor, read off the recorded graph.

The chain is repeated on the caller's real tensors, so autograd sees the same views as in eager.
Must not know: which outputs there are.
"""

from __future__ import annotations

import operator
from functools import cache

import torch
from torch import fx

from aotgrad.facts import Restride, Step
from aotgrad.torch_versions import OpOverload, base_of, schema_of


@cache
def is_view(target: object) -> bool:
    """True for an operator that returns an alias of its first argument without writing."""
    if not isinstance(target, OpOverload) or not schema_of(target).arguments:
        return False
    alias = schema_of(target).arguments[0].alias_info
    return alias is not None and not alias.is_write


def steps_between(base: fx.Node, node: fx.Node) -> list[Step] | None:
    """The steps from `base` to `node` in the order of execution, or None if something other than views lies between."""
    steps: list[Step] = []
    while node is not base:
        if node.target is operator.getitem:
            steps.append(Step(operator.getitem, (node.args[1],)))
        elif node.op == "call_function" and is_view(node.target):
            steps.append(Step(node.target, tuple(node.args[1:]), tuple(node.kwargs.items())))
        else:
            return None
        source = node.args[0]
        assert isinstance(source, fx.Node)
        node = source
    return steps[::-1]


def root_of(node: fx.Node) -> fx.Node:
    """The node whose memory this one views; itself if it has its own."""
    while node.op == "call_function" and (node.target is operator.getitem or is_view(node.target)):
        source = node.args[0]
        assert isinstance(source, fx.Node)
        if node.target is operator.getitem and not is_view(source.target):
            break
        node = source
    return node


def owner_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that autograd knows a view by: its base, or the tensor itself."""
    base = base_of(tensor)
    return tensor if base is None else base


def restride(base: torch.Tensor, view: torch.Tensor) -> Restride | None:
    """`view` as a layout over the memory of `base`, where such a layout says everything."""
    plain = base.dtype == view.dtype and base.is_conj() == view.is_conj() and base.is_neg() == view.is_neg()
    if not plain:
        return None
    return Restride(tuple(view.size()), tuple(view.stride()), view.storage_offset() - base.storage_offset())
