"""Sums, extremes and whatever else goes along axes."""

from __future__ import annotations

import math
from typing import Any

from torch import fx

from compile_api.runtimes.onnx.model import Builder, Name, rule
from compile_api.runtimes.onnx.nodes import argument, dtype_of, sizes_of
from compile_api.torch_versions import aten


def _axes(node: fx.Node, position: int = 1, name: str = "dim") -> list[int]:
    dims = argument(node, position, name)
    rank = len(sizes_of(node.args[0]))
    # torch takes an empty list for all axes.
    if dims is None or dims == []:
        return list(range(rank))
    return [dim % max(rank, 1) for dim in ([dims] if isinstance(dims, int) else dims)]


_REDUCTIONS = {
    aten.sum.dim_IntList: "ReduceSum", aten.sum.default: "ReduceSum", aten.mean.dim: "ReduceMean",
    aten.mean.default: "ReduceMean", aten.amax.default: "ReduceMax", aten.amin.default: "ReduceMin",
}  # fmt: skip


def _reduction(operator: str, has_dim: bool) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        axes = _axes(node) if has_dim else list(range(len(sizes_of(node.args[0]))))
        keep = bool(argument(node, 2, "keepdim", False)) if has_dim else False
        return b.reduce(operator, b.of(node.args[0], dtype_of(node)), axes, keep)

    return write


for _target, _operator in _REDUCTIONS.items():
    rule(_target)(
        _reduction(_operator, "default" not in str(_target) or "amax" in str(_target) or "amin" in str(_target))
    )


@rule(aten.var.correction)
def variance(b: Builder, node: fx.Node) -> Name:
    axes, dtype = _axes(node), dtype_of(node)
    name = b.of(node.args[0])
    # In two passes: a difference of large sums would lose the small ones.
    centred = b.add("Sub", name, b.reduce("ReduceMean", name, axes, True))
    squares = b.reduce("ReduceSum", b.add("Mul", centred, centred), axes, bool(node.kwargs.get("keepdim", False)))
    count = math.prod(sizes_of(node.args[0])[axis] for axis in axes)
    correction = node.kwargs.get("correction")
    return b.add("Div", squares, b.constant(count - (1 if correction is None else correction), dtype))


@rule(aten.argmax.default)
def argmax(b: Builder, node: fx.Node) -> Name:
    dim, keep = argument(node, 1, "dim"), bool(argument(node, 2, "keepdim", False))
    if dim is None:
        flat = b.add("Reshape", b.of(node.args[0]), b.constant([-1]))
        return b.add("ArgMax", flat, axis=0, keepdims=0)
    return b.add("ArgMax", b.of(node.args[0]), axis=dim, keepdims=int(keep))


@rule(aten.cumsum.default)
def cumsum(b: Builder, node: fx.Node) -> Name:
    return b.add("CumSum", b.of(node.args[0], dtype_of(node)), b.constant(node.args[1]))


@rule(aten._softmax.default, aten._log_softmax.default)
def softmax(b: Builder, node: fx.Node) -> Name:
    operator = "Softmax" if node.target is aten._softmax.default else "LogSoftmax"
    return b.add(operator, b.of(node.args[0], dtype_of(node)), axis=node.args[1])
