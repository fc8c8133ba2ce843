"""Gradients that a program takes itself and that would go on beyond the graph, refused.

An input with a history has come from somewhere, and what the gradient is asked for may be there: autograd would go on
from the input, the graph cannot.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from aotgrad.errors import Unsupported


def refuse_gradients_from_outside(arrived: Mapping[object, torch.Tensor], outputs: object, asked: object) -> None:
    """Refuses a gradient that may go on through the history of an input; `arrived` are inputs with a history, by the
    nodes at which autograd comes to them."""
    if not arrived:
        return
    ends = [arrived[node] for node in _behind(_each(outputs)) if node in arrived]
    given = [each for each in _each(asked) if each.grad_fn is None or each.grad_fn in arrived]
    for end in ends:
        if any(each is not end for each in given):
            raise Unsupported(
                "a gradient is asked for that may go through the history of an input",
                "take it with respect to that input alone, or outside of the graph",
            )


def _each(tensors: Any) -> Sequence[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else [each for each in tensors if each is not None]


def _behind(outputs: Sequence[torch.Tensor]) -> set[Any]:
    """All nodes of autograd behind the outputs."""
    waiting, seen = [output.grad_fn for output in outputs], set[Any]()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting.extend(source for source, _ in node.next_functions)
    return seen
