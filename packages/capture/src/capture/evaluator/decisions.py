"""Branches on the values of masks, ids and lengths.

Where the truth of a tensor follows from integer or boolean arguments by a few operations, the graph need not end: the
answer is found now, and a guard asks the same question at the start of later calls, at the price that eager pays for
it.  Floating-point data are what programs compute with, not what they are steered by: branches on it end the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import fx

from capture.evaluator.world import World
from capture.graph_modules import graph_module
from capture.guards.kinds import GuardKind
from capture.guards.sources import Inputs, Source, comes_with_the_call
from capture.torch_versions import version_of

_LIMIT = 16
"""The most operations that a question may take."""

_NO_ANSWER = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""The errors of eager where it asks for the truth of many items, or of what such arguments do not give."""

Reader = Callable[[Inputs], Any]


class Question:
    """The truth of what a graph computes of a frame's function and arguments.  ``places`` are the paths of what it is
    given; None where among that is what no path leads to."""

    def __init__(self, graph: fx.Graph, readers: Sequence[Reader], places: Sequence[Source] | None) -> None:
        self.graph, self.places, self._readers = graph, places, readers
        self._compute = graph_module(torch.nn.Module(), graph).forward

    @classmethod
    def about(cls, graph: fx.Graph, places: Sequence[Source]) -> Question:
        return cls(graph, [place.read for place in places], places)

    def answer(self, inputs: Inputs) -> bool:
        return bool(self._compute(*[read(inputs) for read in self._readers]))  # whole numbers, which have no gradients


class SameAnswer:
    """The guard: what cannot even be asked of other arguments has another answer."""

    def __init__(self, question: Question, answer: bool) -> None:
        self.question, self.answer = question, answer

    def __call__(self, function: FunctionType, *args: object) -> bool:
        try:
            return self.question.answer(Inputs(function, args)) is self.answer
        except _NO_ANSWER:
            return False


def decided_by_arguments(ctx: World, node: fx.Node, placeholders: dict[Source, fx.Node], inputs: Inputs) -> bool | None:
    """The truth of ``node``, relied on from now on; None where the arguments do not simply tell."""
    ask = question_about(node, placeholders, ctx.graph.reader_of)
    if ask is None or inputs.args is None:
        return None
    try:
        answer = ask.answer(inputs)
    except _NO_ANSWER:  # the program's own error, which CPython raises at the branch
        return None
    ctx.guard(
        None, GuardKind.RELATION, (), None, SameAnswer(ask, answer), text=f"the answer at {ctx.location()} is {answer}"
    )
    return answer


def question_about(
    node: fx.Node, inputs: dict[Source, fx.Node], size_reader: Callable[[torch.SymInt], Reader | None]
) -> Question | None:
    """The truth of ``node`` as a function of the frame's function and arguments; None where it is not that simple.

    A size follows from the arguments whatever computed the tensor that was asked for it."""
    paths = {placeholder: source for source, placeholder in inputs.items()}
    needed = _ancestors(node)
    if needed is None or not all(_may_decide(step, paths) for step in needed):
        return None
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    readers: list[Reader] = []
    places: list[Source] | None = []
    for step in node.graph.nodes:  # in order of evaluation
        if step not in needed:
            continue
        held = step.meta.get("val")
        reader = size_reader(held) if isinstance(held, torch.SymInt) else None
        if step.op == "placeholder":
            reader = paths[step].read
            if places is not None:
                places.append(paths[step])
        elif reader is None:
            if isinstance(held, torch.SymInt):
                return None
            copies[step] = graph.node_copy(step, copies.__getitem__)
            continue
        else:
            places = None
        copies[step] = graph.placeholder(step.name)
        readers.append(reader)
    graph.output(copies[node])
    return Question(graph, readers, places)


def _ancestors(node: fx.Node) -> set[fx.Node] | None:
    """The nodes that a node is computed from, down to arguments and sizes; None where they are too many."""
    found, waiting = {node}, [node]
    while waiting:
        for step in waiting.pop().all_input_nodes:
            if step not in found:
                found.add(step)
                if not isinstance(step.meta.get("val"), torch.SymInt):
                    waiting.append(step)
        if len(found) > _LIMIT:
            return None
    return found


def _may_decide(step: fx.Node, paths: dict[fx.Node, Source]) -> bool:
    """True if a node may be computed again from the arguments, and gives the same."""
    held = step.meta.get("val")
    if isinstance(held, torch.SymInt):
        return True
    if not isinstance(held, torch.Tensor):
        return step.op != "placeholder"
    if held.is_inference() or version_of(held) != step.meta["version"]:  # changed since: asked of what is no more
        return False
    if step.op == "placeholder":
        steers = not held.is_floating_point() and not held.is_complex()
        return steers and comes_with_the_call(paths[step])
    return not step.meta.get("draws", False)  # asked again, it would draw other numbers, and the program's next ones
