"""The windows of a pooling operator along one dimension, as exact indices.

Both kinds answer the same questions: the place of a window's element and the conditions for it to exist, the number of
elements that count, and the windows that cover a given place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from inductor.ir.expr import Expr
from inductor.ir.index import ZERO, Index
from inductor.lowerings.algebra import Value, maximum, minimum
from inductor.lowerings.values import as_index_value, compare


def as_number(index: Index) -> Value:
    """A position as an integer value."""
    return Value(as_index_value(index, torch.int64))


@dataclass(frozen=True, slots=True)
class Regular:
    """Windows of ``taps`` elements along one dimension: every ``step``, from ``before`` places before the first
    element on, their elements ``spread`` apart."""

    size: Index
    windows: Index
    taps: int
    step: int
    before: int
    spread: int = 1

    def place(self, window: Index, tap: Index) -> Index:
        """The index of the ``tap``-th element of a window."""
        return window * self.step - self.before + tap * self.spread

    def bounds(self, window: Index, tap: Index) -> list[Expr]:
        """The conditions for the element to exist: the window may reach outside."""
        place = self.place(window, tap)
        return [compare("ge", place, ZERO), compare("lt", place, self.size)]

    def length(self, window: Index, with_padding: bool) -> Value:
        """The number of elements of a window that count for an average."""
        start = as_number(window * self.step - self.before)
        if with_padding:
            return minimum(start + self.taps, as_number(self.size + self.before)) - start
        return minimum(start + self.taps, as_number(self.size)) - maximum(start, 0)

    def is_full(self, with_padding: bool) -> bool:
        """True if equally many elements count in every window, so that an average divides by a constant."""
        windows, size = self.windows.as_int(), self.size.as_int()
        if windows is None or size is None or (self.before and not with_padding):
            return False
        return (windows - 1) * self.step + self.taps <= size + 2 * self.before

    @property
    def is_even(self) -> bool:
        """True if all windows lie inside, so that no element needs a check."""
        windows, size = self.windows.as_int(), self.size.as_int()
        if windows is None or size is None or self.before:
            return False
        return (windows - 1) * self.step + (self.taps - 1) * self.spread < size

    @property
    def most_over_one(self) -> int:
        """The most windows that one element can lie in."""
        return -(-self._reach // self.step)

    @property
    def _reach(self) -> int:
        """The distance from the first element of a window to one past its last."""
        return (self.taps - 1) * self.spread + 1

    def window_over(self, place: Index, order: int) -> Index:
        """The ``order``-th window that may hold an element."""
        return (place + self.before) // self.step - (self.most_over_one - 1 - order)

    def covers(self, place: Index, order: int) -> list[Expr]:
        """The conditions for the ``order``-th window to exist and to hold the element."""
        window = self.window_over(place, order)
        reach = compare("lt", place + self.before - window * self.step, Index.of(self._reach))
        return [compare("ge", window, ZERO), compare("lt", window, self.windows), reach]


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Windows of nearly one length that share out a whole dimension; neighbours may overlap."""

    extent: int
    count: int

    @property
    def size(self) -> Index:
        return Index.of(self.extent)

    @property
    def windows(self) -> Index:
        return Index.of(self.count)

    @property
    def is_even(self) -> bool:
        return self.extent % self.count == 0

    def is_full(self, with_padding: bool) -> bool:
        return self.is_even

    @property
    def taps(self) -> int:
        """The number of elements of the longest window."""
        pairs = ((k * self.extent // self.count, -(-(k + 1) * self.extent // self.count)) for k in range(self.count))
        return max(stop - start for start, stop in pairs)

    def start(self, window: Index) -> Index:
        return window * self.extent // self.count

    def stop(self, window: Index) -> Index:
        return (window * self.extent + (self.extent + self.count - 1)) // self.count

    def place(self, window: Index, tap: Index) -> Index:
        return self.start(window) + tap

    def bounds(self, window: Index, tap: Index) -> list[Expr]:
        return [] if self.is_even else [compare("lt", self.place(window, tap), self.stop(window))]

    def length(self, window: Index, with_padding: bool) -> Value:
        return as_number(self.stop(window) - self.start(window))

    @property
    def most_over_one(self) -> int:
        return 1 if self.is_even else -(-self.count // self.extent) + 1

    def window_over(self, place: Index, order: int) -> Index:
        return place * self.count // self.extent + order

    def covers(self, place: Index, order: int) -> list[Expr]:
        if self.is_even:
            return []
        window = self.window_over(place, order)
        inside = [compare("ge", place, self.start(window)), compare("lt", place, self.stop(window))]
        return [compare("lt", window, self.windows), *inside]


Windows: TypeAlias = "Regular | Adaptive"
