"""Arguments that are views and are written to: cases in which eager's autograd passes nodes that the graphs cannot
have.

A write gives what the argument views another history, and each view of that a step of its own to there, made when it
is next asked for: from a view that is older than the write, autograd does not pass the argument any more.  While a
program is traced the argument is no view, and after the call it is written once: what would show that is refused.
Must not know: how graphs are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from aotgrad.autograd_graph.result_levels import passed
from aotgrad.errors import Unsupported
from aotgrad.recording.recorder import Recorder
from aotgrad.tensors import functional
from aotgrad.torch_versions import version_of
from aotgrad.tracing.analyse import TracedInput, has_history
from aotgrad.tracing.inputs import GraphInput

_HINT = "write to a copy of it"


def refuse_written_views(
    recorder: Recorder,
    inputs: Iterable[tuple[TracedInput, GraphInput]],
    outputs: Sequence[object],
    differentiable: Sequence[torch.Tensor],
) -> None:
    """Refuses writes to arguments that are views, where eager's autograd goes a way that the graph has not.
    ``outputs`` are the program's, ``differentiable`` the new values and results that autograd follows."""
    for entry, given in inputs:
        if not given.view or entry.version in (None, version_of(entry.value)) or entry.value.grad_fn is None:
            continue
        steps = _steps_of_older_views(recorder, entry.value)
        # Behind this edge is the argument's own history, which the graph has right.
        edge = entry.value.grad_fn, entry.value.output_nr
        unfollowed = recorder.watched.was_written_unfollowed(entry.value)
        for result in [*differentiable, *(output for output in outputs if _views(output, entry.value))]:
            found = passed(result, {edge}) if result is not entry.value else set()
            if not steps.isdisjoint(found):
                raise Unsupported("a view of an argument that is a view is used after a write to that", _HINT)
            if unfollowed and not _views(result, entry.value) and any(edge in step.next_functions for step in found):
                raise Unsupported("an argument that is a view is used beside a write without a history", _HINT)


def _views(output: object, value: torch.Tensor) -> bool:
    """True for a view of the same memory that autograd follows."""
    if not isinstance(output, torch.Tensor) or not functional.is_functional(output) or output is value:
        return False
    return output.requires_grad and functional.memory_of(output) == functional.memory_of(value)


def _steps_of_older_views(recorder: Recorder, value: torch.Tensor) -> set[Any]:
    """The nodes that autograd has now for views that are older than the last write."""
    views = recorder.view_versions.values()
    older = [view for view, version in views if _views(view, value) and version_of(view) != version]
    return {view.grad_fn for view in older if has_history(view)}
