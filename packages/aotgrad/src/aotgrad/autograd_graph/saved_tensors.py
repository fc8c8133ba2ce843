"""Tensors that autograd holds for backward, read off the nodes that it made while the program was traced.

A node that holds saved tensors frees them when backward has passed, and a second backward is told so.  Results that
have such nodes in common cannot be differentiated one after another without ``retain_graph``; those that have none can,
as often as one likes.
Must not know: graphs, what is saved for the compiled backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from aotgrad.autograd_graph.result_levels import passed
from aotgrad.autograd_graph.saved_inputs import SavedInput, inputs_saved, saved_names
from aotgrad.tensors.kept import saved_beside
from aotgrad.torch_versions import is_checkpoint_valid


@dataclass(frozen=True, slots=True)
class Behind:
    """The parts of autograd's graph behind one result: nodes that hold tensors, as bits, whether reentrant checkpoints,
    and the inputs of the graph that were saved as the call leaves them."""

    held: int
    checkpoint: bool = False
    inputs: frozenset[SavedInput] = frozenset()


TOGETHER = Behind(1)
"""The value for results that autograd does not follow one by one."""


def behind_each(outputs: Sequence[torch.Tensor]) -> tuple[Behind, ...]:
    """For each output what is behind it; what is behind another output belongs to that one."""
    edges = {(output.grad_fn, output.output_nr) for output in outputs}
    holding: dict[Any, int] = {}
    saved: dict[Any, frozenset[SavedInput]] = {}
    checkpoints, inputs = [], []
    for number, output in enumerate(outputs):
        steps = passed(output, edges)
        checkpoints.append(any(node.name() == "CheckpointFunctionBackward" for node in steps))
        for node in filter(_holds, steps):
            holding[node] = holding.get(node, 0) | 1 << number
            if node not in saved:
                saved[node] = inputs_saved(node)
        inputs.append(frozenset[SavedInput]().union(*(saved[node] for node in steps if node in saved)))
    kinds = sorted(set(holding.values()))  # nodes behind the same outputs are one for this purpose
    held = [sum(1 << bit for bit, kind in enumerate(kinds) if kind >> n & 1) for n in range(len(outputs))]
    return tuple(map(Behind, held, checkpoints, inputs))


def _holds(node: object) -> bool:
    """True if a node of autograd holds saved tensors."""
    if isinstance(node, BackwardCFunction):
        try:
            return bool(node._raw_saved_tensors)
        except RuntimeError:  # the program's own backward has freed it: a read is refused while backward is traced
            return False
    kind: Any = type(node)
    return kind.__name__ == "CopySlices" or bool(saved_names(kind)) or saved_beside(node) is not None


def refuse_second_time() -> None:
    """Raises autograd's own error for a second backward through freed tensors.

    Hooks on saved tensors that are in force are not asked: a checkpoint's would run its function again.
    """
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is):
        result = torch.ones((), requires_grad=True).exp()
    torch.autograd.backward(result)
    torch.autograd.backward(result)


def _as_it_is(saved: torch.Tensor) -> torch.Tensor:
    return saved


def refuse_partial_checkpoint() -> None:
    """Raises a reentrant checkpoint's error where gradients of some inputs alone are asked for."""
    if not is_checkpoint_valid():
        torch.utils.checkpoint.CheckpointFunction.backward(None)
