"""The memory traffic that fusion saves: results that eager would write, less those that the compiled program writes.

Counted in bytes written for one call, from the graph and from the program; a size that varies counts with nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

import inductor
from compile_api.torch_versions import OpOverload, schema_of


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes of results: one tensor for each operator in eager, one for each buffer in the program."""

    eager: int = 0
    compiled: int = 0

    @property
    def saved(self) -> int:
        return max(0, self.eager - self.compiled)

    def __add__(self, other: Written) -> Written:
        return Written(self.eager + other.eager, self.compiled + other.compiled)


def written(gm: fx.GraphModule, compiled: inductor.CompiledGraph) -> Written:
    """The bytes that eager and one compiled graph write; zero where the graph runs operator by operator."""
    if compiled.report.failure is not None:
        return Written()
    eager = sum(_result_bytes(node) for node in gm.graph.nodes if node.op == "call_function" and not _is_view(node))
    return Written(eager, compiled.result_bytes)


def _is_view(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and any(result.alias_info is not None for result in schema_of(target).returns)


def _result_bytes(node: fx.Node) -> int:
    return _tensor_bytes(node.meta.get("val"))


def _tensor_bytes(value: object) -> int:
    if isinstance(value, list | tuple):
        return sum(map(_tensor_bytes, value))
    if not isinstance(value, torch.Tensor) or not all(type(size) is int for size in value.shape):
        return 0
    return value.numel() * value.element_size()
