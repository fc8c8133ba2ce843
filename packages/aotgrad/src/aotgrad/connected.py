"""Which gradients are zeros, and not missing, where some results are not used.

Every step of autograd is asked as soon as one of its results has a gradient, and what it returns is there, also where
it depends on no tangent: the gradient of ``x.ne_(y)`` is zeros.  A `torch.autograd.Function` that is told which
gradients are missing may answer with others: from there on what the graph computes with decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction


def outputs_behind(outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]) -> list[set[int]]:
    """For each leaf, the outputs from which autograd is certain to come to it."""
    found: list[set[int]] = [set() for _ in leaves]
    numbers = {id(leaf): number for number, leaf in enumerate(leaves)}
    for order, output in enumerate(outputs):
        for reached in _reached(output.grad_fn):
            if reached in numbers:
                found[numbers[reached]].add(order)
    return found


def told_of_missing_gradients(outputs: Sequence[torch.Tensor]) -> str | None:
    """The name of a function that is told which of its results have no gradient, where that is not the same in every
    call: it depends on which of ``outputs`` are used."""
    arriving: dict[Any, list[frozenset[int]]] = {}
    for output in outputs:
        for function, numbers in _results_used(output).items():
            arriving.setdefault(function, []).append(numbers)
    return next((type(function).__name__ for function, used in arriving.items() if len(set(used)) > 1), None)


def _results_used(output: torch.Tensor) -> dict[Any, frozenset[int]]:
    """Of each such function behind an output, the numbers of the results by which autograd comes to it."""
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


def _reached(start: Any) -> set[int]:
    """The ids of the leaves that autograd comes to from `start`, whatever functions answer on the way."""
    seen: set[tuple[Any, bool]] = set()
    leaves: set[int] = set()
    waiting = [(start, True)]
    while waiting:
        step, certain = waiting.pop()
        if step is None or (step, certain) in seen:
            continue
        seen.add((step, certain))
        if isinstance(step, BackwardCFunction):
            certain = _wants_zeros(type(step))
        if certain and hasattr(step, "variable"):
            leaves.add(id(step.variable))
        waiting += [(before, certain) for before, _ in step.next_functions]
    return leaves


def _wants_zeros(node: Any) -> bool:
    """What a context was told cannot be read from it, but whether the function tells it."""
    function = node._forward_cls
    tells = (getattr(method, "__code__", None) for method in (function.forward, function.setup_context))
    return not any(code is not None and "set_materialize_grads" in code.co_names for code in tells)
