"""Models for fixed sizes behind a graph whose sizes vary: one for each combination of sizes, made when it first comes.

A program whose sizes never repeat would compile for ever, so there are as many models as a function may have versions;
what comes after them runs eagerly, which is recorded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

import capture
from compile_api.backends import CompilerFn, Context
from compile_api.errors import BackendCannot
from compile_api.ledger import GraphRefused

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_NUMBERS = (bool, int, float, *_SYMBOLIC)


def for_each_size(ctx: Context, name: str, compile_fixed: CompilerFn) -> CompilerFn:
    """``compile_fixed`` for graphs of any sizes; it is given graphs of tensors of fixed sizes alone."""

    def compile_graph(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
        if not any(map(_varies, example_inputs)):
            return compile_fixed(gm, example_inputs)
        return _BySize(ctx, name, compile_fixed, gm)

    return compile_graph


def _varies(example: object) -> bool:
    if not isinstance(example, torch.Tensor):
        return isinstance(example, _SYMBOLIC)
    numbers = (*example.shape, *example.stride()) if example.layout is torch.strided else tuple(example.shape)
    return any(isinstance(number, _SYMBOLIC) for number in numbers)


class _BySize:
    """A graph and its models by the sizes that they are for."""

    def __init__(self, ctx: Context, name: str, compile_fixed: CompilerFn, gm: fx.GraphModule) -> None:
        self._ctx, self._name, self._gm = ctx, name, gm
        self._compile = capture.disable(compile_fixed)
        self._models: dict[Any, Callable[..., Any]] = {}
        self._full = False

    def __call__(self, *inputs: object) -> Any:
        # The compiler behind this differentiates or not: its models hold for one of the two.
        key = (torch.is_grad_enabled(), *map(_kind, inputs))
        model = self._models.get(key) or self._made(key, inputs)
        return self._gm.forward(*inputs) if model is None else model(*_tensors(inputs))

    def _made(self, key: object, inputs: Sequence[object]) -> Callable[..., Any] | None:
        limit = self._ctx.options.recompile_limit
        if len(self._models) >= limit:
            if not self._full:
                self._full = True
                self._refuse(f"sizes varied more often than the recompile_limit of {limit}", "other sizes run eagerly")
            return None
        fixed = with_numbers(self._gm, inputs)
        try:
            self._models[key] = self._compile(fixed, _tensors(inputs))
        except BackendCannot as error:
            self._refuse(str(error), "these sizes run eagerly")
            self._models[key] = fixed.forward
        return self._models[key]

    def _refuse(self, reason: str, consequence: str) -> None:
        self._ctx.ledger.add(GraphRefused(self._name, reason, consequence))


def _kind(value: object) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride() if value.layout is torch.strided else None, value.requires_grad
    return type(value), repr(value) if isinstance(value, float) else value  # of which 0.0 equals -0.0


def _tensors(inputs: Sequence[object]) -> list[Any]:
    return [value for value in inputs if not isinstance(value, _NUMBERS)]


def with_numbers(gm: fx.GraphModule, inputs: Sequence[object]) -> fx.GraphModule:
    """The graph with numbers in the place of those of its inputs that are numbers."""
    graph = fx.Graph()
    values = iter(inputs)
    copies: dict[fx.Node, Any] = {}
    for node in gm.graph.nodes:
        value = next(values) if node.op == "placeholder" else None
        copies[node] = value if isinstance(value, _NUMBERS) else graph.node_copy(node, lambda each: copies[each])
    return fx.GraphModule(gm, graph)


def refuse_symbolic_sizes(gm: fx.GraphModule) -> None:
    """Models are made for fixed sizes; of those that inputs have there is one for each."""
    given = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
    for value in given:
        fixed = value is None or (isinstance(value, torch.Tensor) and all(type(size) is int for size in value.shape))
        if not fixed:
            raise BackendCannot("a size depends on what tensors hold, and a model is made for fixed sizes")
