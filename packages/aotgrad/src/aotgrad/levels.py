"""Which differentiable outputs others come from.

The caller may hang a hook on such an output, keep its gradient, or ask for the gradient with respect to it: autograd
has to come by there on its way from the others.
Must not know: graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def behind(outputs: Sequence[torch.Tensor]) -> list[set[int]]:
    """For each output, the others that autograd comes to first on its way to the inputs."""
    edges = {(output.grad_fn, output.output_nr): number for number, output in enumerate(outputs)}
    if len(edges) < 2:
        return [set() for _ in outputs]
    return [_first(output, edges) for output in outputs]


def _first(output: torch.Tensor, edges: dict[tuple[Any, int], int]) -> set[int]:
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
            if number is None:
                waiting.append(edge[0])
            else:
                found.add(number)
    return found


def levels(others: Sequence[set[int]]) -> tuple[int, ...]:
    """For each output, how many are behind one another between it and the inputs."""
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
