"""The number of elements of the flat memory under several arguments of a call, where sizes are dynamic.

Must not know: what runs on it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx

from aotgrad.errors import BadGraph
from aotgrad.graph_modules import graph_module
from aotgrad.tensors.symbols import SizeNodes
from aotgrad.tracing.inputs import GraphInput, Signature


def storage_numel(entry: GraphInput, signature: Signature) -> Callable[..., int]:
    """A function from all arguments to the length that the graph was traced with, computed from their sizes, or from
    the memory itself where sizes do not tell it."""
    graph = fx.Graph()
    arguments = [graph.placeholder(f"a{position}") for position in range(signature.arity)]
    sizes = SizeNodes(graph)
    for given in signature.inputs:
        if not isinstance(given.value, torch.Tensor):
            sizes.bind(given.value, arguments[given.position])
    for given in signature.inputs:
        for member in given.members:
            sizes.bind_sizes(member.size, member.stride, member.offset, arguments[member.position])
        if isinstance(given.value, torch.Tensor) and not given.members:
            sizes.bind_layout(given.value, arguments[given.position])
    try:
        (length,) = entry.value.size()
        graph.output(sizes.node_for(length))
    except BadGraph:
        return _of_memory(entry.position)
    computed: Callable[..., int] = graph_module(torch.nn.Module(), graph).forward
    return computed


def _of_memory(position: int) -> Callable[..., int]:
    def numel(*arguments: object) -> int:
        tensor: torch.Tensor = arguments[position]
        return tensor.untyped_storage().nbytes() // tensor.element_size()

    return numel
