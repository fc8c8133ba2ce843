"""Gradients that exist, are zeros or are missing, where some results are not used.

Every step of autograd is asked as soon as one of its results has a gradient, and what it returns is there, also where
it depends on no tangent: the gradient of ``x.ne_(y)`` is zeros.  A `torch.autograd.Function` that is told which
gradients are missing may answer with others: from there on what the graph computes with decides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx
from torch.autograd.function import BackwardCFunction

from aotgrad.autograd_graph.result_levels import passed
from aotgrad.tensors.functional import is_functional

Edges = Collection[tuple[Any, int]]
"""Nodes of autograd, and the numbers of their inputs."""


def outputs_behind(
    outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor], unanswered: Edges
) -> list[set[int]]:
    """For each leaf, the outputs from which autograd is certain to come to it."""
    found: list[set[int]] = [set() for _ in leaves]
    numbers = {id(leaf): number for number, leaf in enumerate(leaves)}
    for order, output in enumerate(outputs):
        for reached in _reached(output.grad_fn, unanswered):
            if reached in numbers:
                found[numbers[reached]].add(order)
    return found


def leaves_behind(outputs: Sequence[torch.Tensor]) -> set[int]:
    """The ids of the leaves that autograd comes to, if only to say that there is no gradient."""
    steps = {step for output in outputs for step in passed(output, set())}
    return {id(step.variable) for step in steps if hasattr(step, "variable")}


def function_that_sees_missing_gradients(outputs: Sequence[torch.Tensor]) -> str | None:
    """The name of a function that is told which of its results have no gradient, where that depends on which of
    ``outputs`` are used."""
    arriving: dict[Any, list[frozenset[int]]] = {}
    for output in outputs:
        for function, numbers in _results_used(output).items():
            arriving.setdefault(function, []).append(numbers)
    return next((type(function).__name__ for function, used in arriving.items() if len(set(used)) > 1), None)


ANSWERS = "tangents"
"""The key in a node's ``meta`` for the numbers of tangents without which it does not exist, though it read none of
them."""


HANDS_ON = "hands_on_what_arrives"
"""The attribute of our own functions whose backward gives what it is given, be it a gradient or None."""


def reached_by(graph: fx.Graph, tangents: Sequence[fx.Node]) -> dict[fx.Node, tuple[int, ...]]:
    """For each node, the tangents that it depends on: without them its gradient is undefined, not zero."""
    reached: dict[fx.Node, frozenset[int]] = {node: frozenset((i,)) for i, node in enumerate(tangents)}
    nothing: frozenset[int] = frozenset()
    for node in graph.nodes:
        if node not in reached:
            own = node.meta.get(ANSWERS, nothing)
            reached[node] = own.union(*(reached[source] for source in node.all_input_nodes))
    return {node: tuple(sorted(found)) for node, found in reached.items()}


@contextmanager
def functions_noted(
    outputs: Sequence[torch.Tensor], tangents: Sequence[fx.Node], node_of: Callable[[torch.Tensor], fx.Node]
) -> Iterator[Edges]:
    """While backward of ``outputs`` runs, marks the values that functions with a backward of their own take and return:
    they exist as soon as one of the function's gradients arrives, whatever they are made of.  Yields the edges on which
    such a function returns None."""
    unanswered = set[tuple[Any, int]]()
    # The tangents behind each node, filled as far as hooks ask.
    known = {node: frozenset((number,)) for number, node in enumerate(tangents)}

    def behind(value: Any) -> frozenset[int]:
        return _tangents_behind(node_of(value), known) if _is_plain(value) else frozenset()

    def all_behind(values: Sequence[object]) -> frozenset[int]:
        return frozenset[int]().union(*map(behind, values))

    def noted(numbers: frozenset[int], value: object) -> Any:
        if not _is_plain(value) or behind(value) == numbers:
            return value
        # A node of its own carries the mark: the value may be used elsewhere, where it does not hold.
        own = torch.ops.aten.alias.default(value)
        node_of(own).meta[ANSWERS] = numbers
        return own

    def note_given(arrived: Sequence[object]) -> tuple[Any, ...]:
        return tuple(map(functools.partial(noted, all_behind(arrived)), arrived))

    def note_answers(function: object, answers: Sequence[object], arrived: Sequence[object]) -> tuple[Any, ...]:
        unanswered.update((function, number) for number, answer in enumerate(answers) if answer is None)
        return tuple(map(functools.partial(noted, all_behind(arrived)), answers))

    with ExitStack() as hooks:
        for function in _functions_behind(outputs) if len(outputs) > 1 else ():
            hooks.enter_context(function.register_prehook(note_given))
            hooks.enter_context(function.register_hook(functools.partial(note_answers, function)))
        yield unanswered


def _is_plain(value: object) -> bool:
    return isinstance(value, torch.Tensor) and is_functional(value)


def _functions_behind(outputs: Sequence[torch.Tensor]) -> Iterator[Any]:
    """The nodes of functions with a backward of their own behind the outputs."""
    behind = set[Any]().union(*(passed(output, set()) for output in outputs))
    return (step for step in behind if isinstance(step, BackwardCFunction))


def _tangents_behind(node: fx.Node, known: dict[fx.Node, frozenset[int]]) -> frozenset[int]:
    # An explicit stack: histories are deeper than Python recurses.
    waiting = [node]
    while waiting:
        unknown = [source for source in waiting[-1].all_input_nodes if source not in known]
        if waiting[-1] not in known and unknown:
            waiting.extend(unknown)
            continue
        here = waiting.pop()
        if here not in known:
            own: frozenset[int] = here.meta.get(ANSWERS, frozenset())
            known[here] = own.union(*(known[source] for source in here.all_input_nodes))
    return known[node]


def _results_used(output: torch.Tensor) -> dict[Any, frozenset[int]]:
    """For each function with a backward of its own behind an output, the numbers of its results by which autograd comes
    to it."""
    found: dict[Any, frozenset[int]] = {}
    seen: set[Any] = set()
    waiting = [(output.grad_fn, output.output_nr)]
    while waiting:
        step, number = waiting.pop()
        if step is None:
            continue
        if isinstance(step, BackwardCFunction) and not _wants_zeros(type(step)):
            found[step] = found.get(step, frozenset()) | {number}
        if step not in seen:
            seen.add(step)
            waiting += step.next_functions
    return found


def _reached(start: Any, unanswered: Edges) -> set[int]:
    """The ids of the leaves that autograd comes to from `start`, whatever functions answer on the way."""
    seen: set[tuple[Any, bool]] = set()
    leaves: set[int] = set()
    waiting = [(start, True)]
    while waiting:
        step, certain = waiting.pop()
        if step is None or (step, certain) in seen:
            continue
        seen.add((step, certain))
        if isinstance(step, BackwardCFunction) and not hasattr(step._forward_cls, HANDS_ON):
            # A function that may be told of missing gradients may answer with none: what is behind it is not certain.
            certain = _wants_zeros(type(step))
        if certain and hasattr(step, "variable"):
            leaves.add(id(step.variable))
        befores = (before for before, _ in step.next_functions)
        waiting += [(before, certain) for number, before in enumerate(befores) if (step, number) not in unanswered]
    return leaves


def _wants_zeros(node: Any) -> bool:
    """True unless the function's code calls `set_materialize_grads`: a context does not tell what was set."""
    function = node._forward_cls
    tells = (getattr(method, "__code__", None) for method in (function.forward, function.setup_context))
    return not any(code is not None and "set_materialize_grads" in code.co_names for code in tells)
