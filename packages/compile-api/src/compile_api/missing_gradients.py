"""Leaves that a backward in a graph should reach and does not ask for: their gradients would be missing without a word.

The graph is run eagerly, on real tensors with a history, and at each gradient that stands for a ``backward()`` the
history of the loss is walked as autograd would walk it.  Nothing of the graph's data flow is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

from compile_api.subgraphs import operators

ALL_LEAVES = "all_leaves"
"""In the meta of a ``torch.autograd.grad`` that stands for a ``backward()`` without ``inputs``."""


def left_out(
    gm: fx.GraphModule, inputs: Sequence[object], leaves: Sequence[object]
) -> tuple[fx.Node, tuple[str, ...]] | None:
    """The first backward that leaves out some of ``leaves``, and their names; ``inputs`` come from ``leaves``, one by
    one."""
    if not any(node.meta.get(ALL_LEAVES) for node in operators(gm)):
        return None
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    watching = _Watching(gm)
    with torch.set_grad_enabled(torch.is_grad_enabled()):
        watching.run(*inputs)
    if watching.node is None:
        return None
    known = {id(leaf): name for leaf, name in zip(leaves, names, strict=True)}
    return watching.node, tuple(known.get(id(each), "a tensor made in the graph") for each in watching.missing)


class _Watching(fx.Interpreter):
    """Stops looking at the first backward that leaves something out."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__(gm)
        self.node: fx.Node | None = None
        self.missing: list[torch.Tensor] = []

    def run_node(self, n: fx.Node) -> Any:
        if self.node is None and n.meta.get(ALL_LEAVES):
            (outputs, asked, *_), _ = self.fetch_args_kwargs_from_env(n)
            self.missing = _reached(_each(outputs), _each(asked))
            self.node = n if self.missing else None
        return super().run_node(n)


def _each(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _reached(outputs: Iterable[torch.Tensor], asked: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves behind ``outputs`` that are not behind what is asked for."""
    asked = list(asked)
    ends = {id(step): step for each in asked if (step := each.grad_fn) is not None}
    own = {id(each) for each in asked}
    waiting = [each.grad_fn for each in outputs]
    seen: dict[int, Any] = {}  # steps, too, as in `ends`: an object's id is its own as long as it lives
    found: dict[int, torch.Tensor] = {}
    while waiting:
        step = waiting.pop()
        if step is None or id(step) in seen:
            continue
        seen[id(step)] = step
        if id(step) in ends:
            continue
        if hasattr(step, "variable") and id(step.variable) not in own:
            found[id(step.variable)] = step.variable
        waiting.extend(before for before, _ in step.next_functions)
    return list(found.values())
