"""Tensors made within a graph that want a gradient of their own.

A backward within the same graph finds them.  One that comes later, after a break or in the caller, starts from what the
graph gave and has to arrive at the program's own object: then CPython makes it, between two graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch


def lead_to(leaves: Sequence[torch.Tensor], results: Iterable[torch.Tensor]) -> bool:
    """Whether gradients of any of the results arrive at one of the leaves."""
    if not leaves:
        return False
    made, waiting = set(map(id, leaves)), []
    for result in results:
        if id(result) in made:
            return True
        waiting.append(result.grad_fn)
    seen = set()
    while waiting:
        step = waiting.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        if id(getattr(step, "variable", None)) in made:
            return True
        waiting.extend(before for before, _ in step.next_functions)
    return False
