"""Tensors made within a graph that want a gradient of their own.

A backward within the same graph finds them.  One that comes later, after a break or in the caller, starts from what the
graph gave and has to arrive at the program's own object: then CPython makes it, between two graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch


def are_needed(leaves: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> bool:
    """Whether somebody can ask one of these for its gradient, or would miss a history that begins with them alone."""
    if not leaves:
        return False
    made = set(map(id, leaves))
    if any(id(result) in made for result in results):
        return True
    return any(result.grad_fn is not None and set() < _origins(result) <= made for result in results)


def lead_to(leaves: Collection[torch.Tensor], result: torch.Tensor) -> bool:
    """Whether gradients of the result arrive at one of the leaves."""
    return bool(leaves) and not _origins(result).isdisjoint(map(id, leaves))


def _origins(result: torch.Tensor) -> set[int]:
    """The ids of the tensors that autograd knows the result to come from."""
    if result.grad_fn is None:
        return {id(result)}
    found: set[int] = set()
    seen: set[Any] = set()
    waiting: list[Any] = [result.grad_fn]
    while waiting:
        step = waiting.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        if hasattr(step, "variable"):
            found.add(id(step.variable))
        waiting.extend(before for before, _ in step.next_functions)
    return found
