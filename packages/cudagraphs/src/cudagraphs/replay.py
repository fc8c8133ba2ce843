"""Running a recording: copy what must be copied, launch, hand out what it made.

The hot path.  Must not decide whether the replay is safe; that was done before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from .aliases import Constant, OfInput
from .driver import Driver, Tensor
from .node import Recording
from .storage import Block

Handed: TypeAlias = tuple[int, Block, Tensor]
"""A block of the pool that is now in the caller's hands: its slot, itself, and a tensor over it."""


def replay(
    driver: Driver, recording: Recording, inputs: Sequence[Any], cloned: Collection[int]
) -> tuple[Any, list[Handed]]:
    """Run it on ``inputs``; blocks in the slots ``cloned`` are handed out as copies instead of being lent."""
    plan = recording.inputs
    driver.follow()
    if plan.copied:
        driver.copy(recording.buffers, [inputs[index] for index in plan.copied])
    driver.launch(recording.graph)
    if plan.changed:
        _pass_on_changes(driver, recording, inputs)
    values: list[Any] = [None] * recording.returns
    handed: list[Handed] = []
    for slot, loan in enumerate(recording.loans):
        if slot in cloned:
            tensors = driver.clone(loan.block, loan.views)
        else:
            tensors = driver.lend(loan.block, loan.views)
            handed.append((slot, loan.block, tensors[0]))
        for position, tensor in zip(loan.positions, tensors, strict=True):
            values[position] = tensor
    for position, output in recording.others:
        values[position] = output.value if isinstance(output, Constant) else _view_of_input(driver, output, inputs)
    return recording.rebuild(values), handed


def _pass_on_changes(driver: Driver, recording: Recording, inputs: Sequence[Any]) -> None:
    plan = recording.inputs
    buffers = dict(zip(plan.copied, recording.buffers, strict=True))
    if back := plan.copied_back:
        driver.copy([inputs[index] for index in back], [buffers[index] for index in back])
    driver.note_change([inputs[index] for index in plan.changed if index not in back])


def _view_of_input(driver: Driver, output: OfInput, inputs: Sequence[Any]) -> Tensor:
    value = inputs[output.index]
    if output.itself:
        return value
    start = driver.view(value).offset
    return driver.view_of(value, replace(output.view, offset=output.view.offset + start))
