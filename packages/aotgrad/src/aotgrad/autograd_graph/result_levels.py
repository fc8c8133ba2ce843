"""Levels of differentiable outputs: those that others come from, and those that are independent of each other.

The caller may hang a hook on such an output, keep its gradient, or ask for the gradient with respect to it: autograd
has to pass there on its way from the others.  What is behind one output must not be reached from another that does
not come from it: its history may be gone, or wait for a backward of its own.
Must not know: graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Stage:
    """Differentiable outputs, by number, that go back together, and the nodes that autograd comes to from them: outputs
    of the stages before and inputs of the graph."""

    outputs: tuple[int, ...]
    passed: frozenset[int]
    inputs: frozenset[int]


def stages(
    others: Sequence[set[int]], inputs: Sequence[set[int]], older: Collection[int], held: Sequence[int]
) -> tuple[Stage, ...]:
    """The stages of backward: level after level, and within a level apart where outputs have nothing behind them in
    common.

    ``others`` and ``inputs`` are the outputs and inputs that autograd comes to first from each output.  Inputs in
    common do not keep two together of which one comes from another output or from one of ``older``, inputs with a
    history, and the other does not: that one alone leads there.  Nodes that autograd holds for both do: ``held`` has
    them for each output, as bits.
    """
    level = levels(others)
    found: list[Stage] = []
    for height in sorted(set(level)):
        here: list[Stage] = []
        for number in (number for number, other in enumerate(level) if other == height):
            one = Stage((number,), frozenset(others[number]), frozenset(inputs[number]))
            # One output may join several stages of the level, which are one from then on.
            for other in [other for other in here if _together(one, other, older, held)]:
                here.remove(other)
                one = Stage((*other.outputs, *one.outputs), one.passed | other.passed, one.inputs | other.inputs)
            here.append(one)
        found += here
    return tuple(found)


def _together(one: Stage, other: Stage, older: Collection[int], held: Sequence[int]) -> bool:
    if not (one.passed & other.passed or one.inputs & other.inputs):
        return False
    alike = one.passed == other.passed and not (one.inputs ^ other.inputs).intersection(older)
    return alike or any(held[mine] & held[its] for mine in one.outputs for its in other.outputs)


def inputs_behind(outputs: Sequence[torch.Tensor], leaves: dict[int, int]) -> list[set[int]]:
    """For each output, the numbers of the ``leaves``, given by id, that autograd comes to without passing another
    output."""
    edges = {(output.grad_fn, output.output_nr) for output in outputs}
    return [
        {
            leaves[id(step.variable)]
            for step in passed(output, edges)
            if hasattr(step, "variable") and id(step.variable) in leaves
        }
        for output in outputs
    ]


def passed(output: torch.Tensor, edges: set[tuple[object, int]]) -> set[Any]:
    """All nodes that autograd passes from an output until it comes to one of ``edges``."""
    waiting, seen = [output.grad_fn], set[Any]()
    while waiting:
        step = waiting.pop()
        if step is not None and step not in seen:
            seen.add(step)
            waiting.extend(edge[0] for edge in step.next_functions if edge not in edges)
    return seen


def behind(outputs: Sequence[torch.Tensor]) -> list[set[int]]:
    """For each output, the others that autograd comes to first on its way to the inputs."""
    edges = {(output.grad_fn, output.output_nr): number for number, output in enumerate(outputs)}
    if len(edges) < 2:
        return [set() for _ in outputs]
    return [_first(output, edges) for output in outputs]


def _first(output: torch.Tensor, edges: dict[tuple[object, int], int]) -> set[int]:
    """The outputs that autograd comes to first from one of them."""
    found: set[int] = set()
    seen: set[Any] = set()
    waiting = [output.grad_fn]
    while waiting:
        step = waiting.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        for edge in step.next_functions:
            number = edges.get(edge)
            # Another output is where the search ends: what is behind it belongs to that one.
            if number is None:
                waiting.append(edge[0])
            else:
                found.add(number)
    return found


def levels(others: Sequence[set[int]]) -> tuple[int, ...]:
    """For each output, the longest chain of other outputs between it and the inputs."""
    known: dict[int, int] = {}
    for start in range(len(others)):
        waiting = [start]
        while waiting:
            number = waiting[-1]
            unknown = [other for other in others[number] if other not in known]
            if unknown:
                waiting.extend(unknown)
            else:
                known[waiting.pop()] = 1 + max((known[other] for other in others[number]), default=-1)
    return tuple(known[number] for number in range(len(others)))
