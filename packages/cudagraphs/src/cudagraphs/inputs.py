"""Inputs of a replay: each is read where it lies, or copied into a buffer of the recording first.

A graph reads fixed addresses.  Parameters and outputs of earlier graphs lie still and are read in place; that they did
is checked at every replay.  Everything else is copied.  What lies still is seen rather than asked: an input that was
the same memory at two calls in a row is expected to be so at the next.  Plain values are part of the signature.  Must
not know the tree: whether a recording with a given plan is used is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .driver import Driver, Tensor
from .errors import CannotRecord, Refusal
from .storage import Held


@dataclass(frozen=True, slots=True)
class InputPlan:
    """Indices of the inputs read in place with the addresses they had, of those copied, and of those that the function
    changes; a copied one that is changed is copied back after the launch.  ``lent`` are those read in place because
    another recording had made them."""

    in_place: tuple[int, ...]
    addresses: tuple[int, ...]
    copied: tuple[int, ...]
    changed: tuple[int, ...] = ()
    lent: frozenset[int] = frozenset()

    @property
    def copied_back(self) -> tuple[int, ...]:
        """The copied inputs whose change has to reach the caller's tensor."""
        return tuple(index for index in self.changed if index in self.copied)

    def moved(self, driver: Driver, inputs: Sequence[object]) -> list[int]:
        """The inputs read in place that have another address now."""
        pairs = zip(self.in_place, self.addresses, strict=True)
        return [index for index, address in pairs if driver.address(inputs[index]) != address]


class Stillness:
    """Watches a function's inputs from call to call; holds none of them."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, Held]] = {}
        self.still: frozenset[int] = frozenset()

    def see(self, driver: Driver, inputs: Sequence[object]) -> None:
        """Notes the inputs of a call: ``still`` are those with the same memory as at the call before."""
        before = self._last
        self._last = {
            index: (driver.address(value), driver.hold_weakly(value))
            for index, value in enumerate(inputs)
            if driver.is_tensor(value) and driver.readable(value)
        }
        # An address alone says little: memory that was freed is given to somebody else.
        self.still = frozenset(
            index
            for index, (address, held) in before.items()
            if held.alive() and index in self._last and self._last[index][0] == address
        )


def plan_inputs(
    driver: Driver,
    inputs: Sequence[object],
    static: Collection[int],
    lent: Collection[int],
    always_copied: Collection[int],
) -> InputPlan:
    """Inputs that lie still (``static``) and those in lent pool memory (``lent``: storage addresses) are read in place,
    others copied."""
    in_place: list[int] = []
    copied: list[int] = []
    from_pool: set[int] = set()
    for index, value in enumerate(inputs):
        if not driver.is_tensor(value) or not driver.readable(value) or _is_number(driver, value):
            continue
        is_lent = driver.block(value).address in lent
        lies_still = index not in always_copied and (is_lent or index in static)
        (in_place if lies_still else copied).append(index)
        if lies_still and is_lent:
            from_pool.add(index)
    addresses = tuple(driver.address(inputs[index]) for index in in_place)
    for index in copied:
        if not driver.on_device(inputs[index]):  # an earlier launch may still be reading where it would be copied to
            raise CannotRecord(Refusal.CPU_INPUT, f"input {index} is pinned memory that is elsewhere at each call")
        _check_copyable(driver, index, inputs[index])
    return InputPlan(tuple(in_place), addresses, tuple(copied), lent=frozenset(from_pool))


def dense_shape(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The part of the shape that occupies memory: an expanded dimension counts once."""
    return tuple(1 if stride == 0 else size for size, stride in zip(shape, strides, strict=True))


def overlaps_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if two different indices may reach the same element.  Exact for layouts that operators make; cautious
    beyond."""
    reach = 0
    for size, stride in sorted(zip(shape, strides, strict=True), key=lambda dim: dim[1]):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False


def separates(driver: Driver, plan: InputPlan, inputs: Sequence[object]) -> bool:
    """True if copying would hide a change from an input that shares memory with the changed one."""
    tensors = [i for i, value in enumerate(inputs) if driver.is_tensor(value) and driver.on_device(value)]
    homes = {index: driver.block(inputs[index]).address for index in tensors}
    return any(
        homes[index] == homes[changed] and (index in plan.copied or changed in plan.copied)
        for changed in plan.changed
        for index in tensors
        if index != changed
    )


def _is_number(driver: Driver, tensor: Tensor) -> bool:
    """True for a 0-d CPU tensor, whose value is part of the signature."""
    return driver.on_cpu(tensor) and driver.view(tensor).shape == ()


def _check_copyable(driver: Driver, index: int, tensor: Tensor) -> None:
    view = driver.view(tensor)
    if overlaps_itself(dense_shape(view.shape, view.strides), view.strides):
        raise CannotRecord(Refusal.OVERLAPPING_LAYOUT, f"input {index}: shape {view.shape}, strides {view.strides}")
