"""Recipes: operations that were recorded once and need no more than to be put into the graph again.

Most operators of a layer give a tensor in memory of its own that nothing leads back from: on operands such as these, in
the modes that these were in, they give such a tensor each time, and nothing runs.  Views, of which autograd keeps what
they are views of, and what has a history run on fakes, and nothing else of them is looked at again.  What writes, draws
or may be refused is recorded as if for the first time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import fx
from torch.fx.node import Argument

from capture.errors import Signal
from capture.evaluator.equal_calls.facts import of_fake
from capture.evaluator.equal_calls.paths import Refused
from capture.operators.fake_kernels import fake_kernel
from capture.recording.graph import GraphRecorder
from capture.recording.remembered import Effects, Part, Remembered, made_again
from capture.signals import let_through
from capture.silence import silenced
from capture.torch_versions import FakeTensor
from capture.values.base import Value
from capture.values.tensor import TensorValue

_OF_THIS_NODE = frozenset({"example_value", "val", "version", "location"})


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that it takes to put an operation into the graph again, in the place of other operands."""

    node: fx.Node
    part: Part | None  # of a result that can be made without running anything
    fact: object
    meta: Mapping[str, object]
    effects: Effects
    work: int


class Watching:
    """The counts of all that an operation may do besides giving a result, from before it is recorded."""

    def __init__(self, graph: GraphRecorder) -> None:
        self.graph = graph
        journal = graph.mode.journal
        self.counts, self.draws, self.work = journal.counts(), graph.mode.draws, journal.work
        self.operations, self.nodes = graph.operations, len(graph.graph.nodes)

    def recipe(self, result: Value) -> Recipe | None:
        """The recipe of the operation, asked for when it is recorded; None where it has to run each time."""
        graph, journal = self.graph, self.graph.mode.journal
        if type(result) is not TensorValue or result.node is not next(iter(reversed(graph.graph.nodes))):
            return None  # it may have given an operand back
        if graph.shape_env is not None or graph.mode.remembered is None:
            return None
        if graph.operations != self.operations + 1 or len(graph.graph.nodes) != self.nodes + 1:
            return None
        effects = journal.effects_since(self.counts, self.draws)
        if effects is None or effects.doubts or graph.mode.draws != self.draws or journal.closed:
            return None
        operands = [node.meta["val"] for node in result.node.all_input_nodes]
        if not all(type(operand) is FakeTensor and operand.layout is torch.strided for operand in operands):
            return None
        if type(result.fake) is not FakeTensor or any(result.fake is operand for operand in operands):
            return None
        meta = {name: value for name, value in result.node.meta.items() if name not in _OF_THIS_NODE}
        part, fact = _own_memory(graph.mode.remembered, operands, result.fake), of_fake(result.fake)
        return Recipe(result.node, part, fact, meta, effects, journal.work - self.work)


def _own_memory(remembered: Remembered, operands: list[object], result: torch.Tensor) -> Part | None:
    """The part of a result that can be made again without running anything; None where it cannot."""
    (part, *_) = remembered.parts_of(operands, [result]) or [None]
    if part is None or part.operand is not None or of_fake(made_again(part, ())) != of_fake(result):
        return None
    return part


class NotAsBefore(Refused):
    """An operation gives something else than it gave."""


def done_again(
    recipe: Recipe, slots: Mapping[fx.Node, int], values: Sequence[Value], graph: GraphRecorder
) -> TensorValue:
    """The operation in the graph once more: on what stands in the slots that its operands had."""
    first = recipe.node

    def other(node: fx.Node) -> fx.Node:
        slot = slots.get(node)
        value = None if slot is None else values[slot]
        return value.node if isinstance(value, TensorValue) else node

    args, kwargs = fx.node.map_arg(first.args, other), fx.node.map_arg(first.kwargs, other)
    fake = _run(recipe, args, kwargs, graph) if recipe.part is None else _made(recipe, recipe.part, graph)
    if isinstance(first.target, str):
        node = graph.call_method(first.target, args, kwargs, fake)
    else:
        node = graph.call(first.target, args, kwargs, fake)
    node.meta.update(recipe.meta)
    return TensorValue(node, fake)


def _made(recipe: Recipe, part: Part, graph: GraphRecorder) -> torch.Tensor:
    """A tensor like the one that the operation gave, with its effects on the journal."""
    graph.mode.journal.work += recipe.work
    graph.mode.journal.note_again(recipe.effects)
    return made_again(part, ())


def _run(recipe: Recipe, args: tuple[Argument, ...], kwargs: dict[str, Argument], graph: GraphRecorder) -> torch.Tensor:
    """The result of the operation on the fakes of this call, which has to be what it was."""
    given = fx.node.map_arg(args, lambda node: node.meta["val"])
    options = fx.node.map_arg(kwargs, lambda node: node.meta["val"])
    target, journal = recipe.node.target, graph.mode.journal
    doubts, written = journal.doubts, len(journal.order)
    try:
        with graph.mode, silenced():
            if isinstance(target, str):
                fake = getattr(given[0], target)(*given[1:], **options)
            else:
                fake = fake_kernel(target)(*given, **options)
    except Signal:
        raise
    except Exception as error:  # whatever an operator raises: the call is then evaluated, which tells the user of it
        let_through(error)
        raise NotAsBefore from error
    known = isinstance(fake, torch.Tensor) and any(fake is each for each in given)
    # An operand that came back, or a fake that differs in a fact: then the tape does not tell of this call.
    if known or type(fake) is not FakeTensor or of_fake(fake) != recipe.fact:
        raise NotAsBefore
    if journal.doubts != doubts or len(journal.order) != written:
        raise NotAsBefore
    return fake
