"""Readings of a clock in captured code: taken by the written code, before the graph or behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capture.values.scalar import ScalarValue


class ClockReading(ScalarValue):
    """The reading of a clock, after so many ``recorded`` operations.

    With none before it the clock is read before the graph, else behind it, which is wrong if more operations followed.
    """

    def __init__(self, clock: Callable[[], float], recorded: int) -> None:
        super().__init__(float, function=clock)
        self.clock = clock
        self.recorded = recorded

    def _given(self) -> Iterator[ScalarValue | None]:
        yield None  # nobody can tell before

    def describe(self) -> str:
        return f"what `{self.clock.__name__}` says"
