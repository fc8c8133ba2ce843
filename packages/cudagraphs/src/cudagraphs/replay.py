"""Running a recording: copy what must be copied, launch, hand out what it made.

The hot path.  Must not decide whether the replay is safe; that was done before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .aliases import Constant, Fresh, OfInput
from .driver import Driver, Tensor
from .node import Recording, structured
from .storage import Block, View


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the caller gets, and the blocks of the pool that are now in its hands with a tensor over each."""

    result: Any
    lent: tuple[tuple[int, Block, Tensor], ...]


def replay(driver: Driver, recording: Recording, inputs: Sequence[Any], cloned: Collection[int]) -> Replayed:
    """Run it on ``inputs``; blocks in the slots ``cloned`` are handed out as copies instead of being lent."""
    plan = recording.inputs
    if plan.copied:
        driver.copy(recording.buffers, [inputs[index] for index in plan.copied])
    driver.launch(recording.graph)
    if plan.written:
        driver.copy(*_written_back(recording, inputs))
    values: list[Any] = [None] * len(recording.outputs)
    lent = _hand_out_fresh(driver, recording, cloned, values)
    for position, output in enumerate(recording.outputs):
        if isinstance(output, OfInput):
            values[position] = _view_of_input(driver, output, inputs[output.index])
        elif isinstance(output, Constant):
            values[position] = output.value
    return Replayed(structured(recording.structure, values), lent)


def _written_back(recording: Recording, inputs: Sequence[Any]) -> tuple[list[Tensor], list[Tensor]]:
    buffers = dict(zip(recording.inputs.copied, recording.buffers, strict=True))
    written = recording.inputs.written
    return [inputs[index] for index in written], [buffers[index] for index in written]


def _hand_out_fresh(
    driver: Driver, recording: Recording, cloned: Collection[int], values: list[Any]
) -> tuple[tuple[int, Block, Tensor], ...]:
    lent = []
    for slot, block in enumerate(recording.lends):
        positions, views = _seen_through(recording, slot)
        tensors = driver.clone(block, views) if slot in cloned else driver.lend(block, views)
        for position, tensor in zip(positions, tensors, strict=True):
            values[position] = tensor
        if slot not in cloned:
            lent.append((slot, block, tensors[0]))
    return tuple(lent)


def _seen_through(recording: Recording, slot: int) -> tuple[list[int], list[View]]:
    seen = [
        (position, output.view)
        for position, output in enumerate(recording.outputs)
        if isinstance(output, Fresh) and output.slot == slot
    ]
    return [position for position, _ in seen], [view for _, view in seen]


def _view_of_input(driver: Driver, output: OfInput, value: Tensor) -> Tensor:
    if output.itself:
        return value
    start = driver.view(value).offset
    return driver.view_of(value, replace(output.view, offset=output.view.offset + start))
