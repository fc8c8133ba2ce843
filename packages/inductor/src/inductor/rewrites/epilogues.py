"""Products of matrices with a bias and GELU behind them, which cuBLAS computes on the way to memory.

Only GELU in its form with tanh: what cuBLAS puts in the place of relu gives 0 for NaN at some sizes.  Eager rounds to
half precision between the two; one call does not, as kernels of ours do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from inductor.torch_versions import aten

HALF = (torch.float16, torch.bfloat16)
RESHAPES = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A ``product`` whose only reader is an ``activation``; the nodes ``between`` only reshape it."""

    product: Node
    between: tuple[Node, ...]
    activation: Node


def find_epilogues(graph: Graph) -> Mapping[Node, Epilogue]:
    """The products that can be one call with their activation, by the product."""
    activations = graph.find_nodes(op="call_function", target=aten.gelu.default)
    found = (_behind(node) for node in activations if node.kwargs.get("approximate") == "tanh")
    return {epilogue.product: epilogue for epilogue in found if epilogue is not None}


def _behind(activation: Node) -> Epilogue | None:
    between: list[Node] = []
    node = activation.args[0]
    while isinstance(node, Node) and node.target in RESHAPES and len(node.users) == 1:
        between.append(node)
        node = node.args[0]
    if not isinstance(node, Node) or node.target is not aten.addmm.default or len(node.users) != 1 or node.kwargs:
        return None
    value, bias = node.meta["val"], node.args[0]
    is_row = isinstance(bias, Node) and bias.meta["val"].dim() == 1 and bias.meta["val"].dtype == value.dtype
    # cuBLAS adds a bias on its way to memory only where it is a row of the product's own dtype.
    fits = value.device.type == "cuda" and value.dtype in HALF and is_row
    return Epilogue(node, tuple(between), activation) if fits else None
