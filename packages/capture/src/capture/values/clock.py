"""Readings of a clock in captured code: taken by the written code, before the graph or behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capture.values.scalar import ScalarValue


class ClockReading(ScalarValue):
    """``recorded`` operations came before it.  Where that is none it is read before the graph, else behind the graph,
    which is wrong if more operations followed."""

    def __init__(self, clock: Callable[[], float], recorded: int) -> None:
        super().__init__(float, function=clock)
        self.clock = clock
        self.recorded = recorded

    def _given(self) -> Iterator[ScalarValue | None]:
        yield None  # nobody can tell before

    def describe(self) -> str:
        return f"what `{self.clock.__name__}` says"
