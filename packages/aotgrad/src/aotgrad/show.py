"""Graphs of every stage as text: inputs and outputs with their roles, operators with the shapes of their results.

Must not know: how the graphs were made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import fx

from aotgrad.errors import WrongArguments, kind
from aotgrad.partitioning.partition import Half, Pair
from aotgrad.tracing.joint import JointGraph


def show(stage: JointGraph | Pair | Half) -> str:
    """The text of a joint graph, of one of the two graphs, or of both."""
    if isinstance(stage, Pair):
        return f"# forward\n{show(stage.forward)}\n# backward\n{show(stage.backward)}"
    if not isinstance(stage, JointGraph | Half):
        raise WrongArguments(
            f"aotgrad.show takes a joint graph, which a partition is given, or the pair that it returns, "
            f"not {kind(stage)}"
        )
    graph = stage.graph if isinstance(stage, JointGraph) else stage.module.graph
    return "\n".join(_lines(graph, stage.outputs)) + "\n"


def _lines(graph: fx.Graph, roles: Sequence[object]) -> Iterator[str]:
    for node in graph.nodes:
        if node.op == "placeholder":
            yield f"in   {node.name}: {_kind(node.meta['val'])}  # {node.meta['role']}"
        elif node.op == "output":
            for value, role in zip(node.args[0], roles, strict=True):
                yield f"out  {value}  # {role}"
        else:
            yield f"     {node.name}: {_kind(node.meta['val'])} = {_call(node)}"


def _call(node: fx.Node) -> str:
    if node.op == "get_attr":
        return str(node.target)
    arguments = [*map(str, node.args), *(f"{key}={value}" for key, value in node.kwargs.items())]
    return f"{getattr(node.target, '__name__', node.target)}({', '.join(arguments)})"


def _kind(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_kind, value))})"
    if isinstance(value, (float, torch.SymFloat)):
        return "float"
    return "int" if isinstance(value, (int, torch.SymInt)) else type(value).__name__
