"""The replay of a recording: inputs are copied, the graph launched, and its outputs handed out.

The hot path: what can be settled when a call is recorded was settled there.  Must not decide whether the replay is
safe; that was done before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from .aliases import Constant, OfInput
from .driver import Driver, Tensor
from .node import Recording


def replay(driver: Driver, recording: Recording, inputs: Sequence[object], cloned: Collection[int]) -> Any:
    """Runs it on ``inputs``; blocks in the slots ``cloned`` are handed out as copies instead of being lent."""
    plan = recording.inputs
    driver.follow()
    driver.launch(recording.graph, [inputs[index] for index in plan.copied])
    if plan.changed:
        _pass_on_changes(driver, recording, inputs)
    if recording.direct and not cloned:
        return recording.rebuild(recording.lends.handed.tensors())
    return recording.rebuild(_outputs(driver, recording, inputs, cloned))


def _outputs(driver: Driver, recording: Recording, inputs: Sequence[object], cloned: Collection[int]) -> list[Any]:
    """All outputs in their places: those lent, those copied out, and those that are no memory of the pool."""
    values: list[Any] = [None] * recording.returns
    loans, copied = recording.loans, sorted(cloned)
    made = dict(zip(copied, recording.lends.handed.copies(copied), strict=True))
    for slot, loan in enumerate(loans):
        tensors = made[slot] if slot in made else recording.lends.handed.tensors_of(slot)
        for position, tensor in zip(loan.positions, tensors, strict=True):
            values[position] = tensor
    for position, output in recording.others:
        values[position] = output.value if isinstance(output, Constant) else _view_of_input(driver, output, inputs)
    return values


def _pass_on_changes(driver: Driver, recording: Recording, inputs: Sequence[object]) -> None:
    """Brings changes of copied inputs back to the caller's tensors, and counts those made in place."""
    plan = recording.inputs
    buffers = dict(zip(plan.copied, recording.buffers, strict=True))
    if back := plan.copied_back:
        driver.copy([inputs[index] for index in back], [buffers[index] for index in back])
    driver.note_change([inputs[index] for index in plan.changed if index not in back])


def _view_of_input(driver: Driver, output: OfInput, inputs: Sequence[object]) -> Tensor:
    value = inputs[output.index]
    if output.itself:
        return value
    start = driver.view(value).offset
    return driver.view_of(value, replace(output.view, offset=output.view.offset + start))
