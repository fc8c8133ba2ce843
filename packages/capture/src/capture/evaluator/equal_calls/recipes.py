"""Recipes: operations whose result is known from the first time that they were recorded, so that nothing runs again.

Most operators of a layer give a tensor in memory of its own that nothing leads back from: on operands such as these, in
the modes that these were in, they give such a tensor each time.  All others run on fakes for each layer: views, of
which autograd keeps what they are views of, what has a history, what writes, draws or may be refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from capture.evaluator.equal_calls.facts import of_fake
from capture.recording.graph import GraphRecorder
from capture.recording.remembered import Effects, Part, made_again
from capture.torch_versions import FakeTensor
from capture.values.base import Value
from capture.values.tensor import TensorValue

_OF_THIS_NODE = frozenset({"example_value", "val", "version", "location"})


@dataclass(frozen=True, slots=True)
class Recipe:
    node: fx.Node
    part: Part
    meta: Mapping[str, object]
    effects: Effects
    work: int


class Watching:
    """How much there is of what an operation may do besides giving a result."""

    def __init__(self, graph: GraphRecorder) -> None:
        self.graph = graph
        journal = graph.mode.journal
        self.counts, self.draws, self.work = journal.counts(), graph.mode.draws, journal.work
        self.operations, self.nodes = graph.operations, len(graph.graph.nodes)

    def recipe(self, result: Value) -> Recipe | None:
        """To be asked for when the operation is recorded; None where it has to run each time."""
        graph, journal = self.graph, self.graph.mode.journal
        if type(result) is not TensorValue or graph.shape_env is not None or graph.mode.remembered is None:
            return None
        if graph.operations != self.operations + 1 or len(graph.graph.nodes) != self.nodes + 1:
            return None
        effects = journal.effects_since(self.counts, self.draws)
        if effects is None or effects.doubts or graph.mode.draws != self.draws or journal.closed:
            return None
        operands = [node.meta["val"] for node in result.node.all_input_nodes]
        if not all(type(operand) is FakeTensor and operand.layout is torch.strided for operand in operands):
            return None
        parts = graph.mode.remembered.parts_of(operands, [result.fake])
        if parts is None or parts[0] is None or parts[0].operand is not None:
            return None
        if of_fake(made_again(parts[0], ())) != of_fake(result.fake):
            return None
        meta = {name: told for name, told in result.node.meta.items() if name not in _OF_THIS_NODE}
        return Recipe(result.node, parts[0], meta, effects, journal.work - self.work)


def done_again(
    recipe: Recipe, slots: Mapping[fx.Node, int], values: Sequence[Value], graph: GraphRecorder
) -> TensorValue:
    """The operation in the graph once more: on what stands in the slots that its operands had."""
    first, journal = recipe.node, graph.mode.journal

    def other(node: fx.Node) -> fx.Node:
        slot = slots.get(node)
        value = None if slot is None else values[slot]
        return value.node if isinstance(value, TensorValue) else node

    fake = made_again(recipe.part, ())
    args, kwargs = fx.node.map_arg(first.args, other), fx.node.map_arg(first.kwargs, other)
    if isinstance(first.target, str):
        node = graph.call_method(first.target, args, kwargs, fake)
    else:
        node = graph.call(first.target, args, kwargs, fake)
    node.meta.update(recipe.meta)
    journal.work += recipe.work
    journal.note_again(recipe.effects)
    return TensorValue(node, fake)
