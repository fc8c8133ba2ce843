"""Aliases of a recorded function's outputs: new memory, a view of an input, or something constant.

Exists because a replay must give back what a plain call would: fresh tensors for new memory, views of *this* call's
inputs for views.  Must not know how a graph is recorded or launched.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .driver import Driver, Tensor
from .errors import CannotRecord, Refusal
from .storage import PLAIN, Block, View


@dataclass(frozen=True, slots=True)
class Fresh:
    """Memory made by the recording: the ``slot``-th block that it lends, seen through ``view``."""

    slot: int
    view: View


@dataclass(frozen=True, slots=True)
class OfInput:
    """A view of an input; ``view.offset`` counts from where the input itself begins."""

    index: int
    view: View
    itself: bool


@dataclass(frozen=True, slots=True)
class Constant:
    """An object that every call returns: a number, None, or a tensor that the function holds outside the pool."""

    value: Any


Output: TypeAlias = Fresh | OfInput | Constant


def classify(
    driver: Driver,
    inputs: Sequence[object],
    results: Sequence[object],
    made: Collection[int],
    protected: Collection[int],
) -> tuple[tuple[Output, ...], tuple[Block, ...]]:
    """The outputs, and the blocks that they lend; ``made`` are the addresses that the recording left allocated."""
    blocks: dict[int, Block] = {}
    slots: dict[int, int] = {}
    outputs: list[Output] = []
    owners = _storages(driver, inputs)
    for result in results:
        if isinstance(result, PLAIN):
            outputs.append(Constant(result))
            continue
        _check_output(driver, result)
        block, view = driver.block(result), driver.view(result)
        # Blocks without bytes may all have one address.
        if block.address in owners and block.nbytes:
            outputs.append(_of_input(driver, inputs, owners[block.address], result, view))
        # Memory of the recording's own, which is lent to the caller.
        elif block.address in made:
            slot = slots.setdefault(block.address, len(slots))
            blocks[slot] = block
            outputs.append(Fresh(slot, view))
        elif block.address in protected:
            raise CannotRecord(Refusal.UNKNOWN_MEMORY, f"a tensor of shape {view.shape} held by the function")
        else:
            outputs.append(Constant(result))
    return tuple(outputs), tuple(blocks.values())


def _check_output(driver: Driver, result: object) -> None:
    if not driver.is_tensor(result):
        raise CannotRecord(Refusal.UNKNOWN_OUTPUT, f"a {type(result).__qualname__}")
    if driver.requires_grad(result):
        raise CannotRecord(Refusal.NEEDS_GRAD, f"an output of shape {driver.view(result).shape} requires grad")
    if driver.on_cpu(result):
        raise CannotRecord(Refusal.CPU_OUTPUT, f"shape {driver.view(result).shape}")
    if not driver.on_device(result):
        raise CannotRecord(Refusal.OTHER_DEVICE, f"an output of shape {driver.view(result).shape}")


def _storages(driver: Driver, inputs: Sequence[object]) -> dict[int, int]:
    """Storage address to the first input that uses it."""
    owners: dict[int, int] = {}
    for index, value in enumerate(inputs):
        if driver.is_tensor(value) and driver.on_device(value):
            owners.setdefault(driver.block(value).address, index)
    return owners


def _of_input(driver: Driver, inputs: Sequence[object], index: int, result: Tensor, view: View) -> OfInput:
    same = next((i for i, value in enumerate(inputs) if value is result), None)
    index = index if same is None else same
    source = driver.view(inputs[index])
    if source.dtype != view.dtype:  # offsets count elements, so they would not carry over
        raise CannotRecord(Refusal.UNKNOWN_MEMORY, f"input {index} is returned as {view.dtype}")
    from_start = View(view.dtype, view.shape, view.strides, view.offset - source.offset)
    return OfInput(index, from_start, itself=same is not None)
