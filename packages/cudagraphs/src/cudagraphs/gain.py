"""The gain of replays, found by timing plain calls and replays, each between two waits for the device.

Two things count: when a call is back, for a program that the host holds up, and when the device is done, for one that
the device holds up.  Must not know how anything is timed, or what is done about the verdict.
"""

from __future__ import annotations

from typing import NamedTuple


class Took(NamedTuple):
    """Seconds from the start of a call until it was back, and until the device had done its work."""

    back: float
    done: float


class Trial:
    """The calls of one case that were timed; the fastest of each kind is compared, for the others were disturbed."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self.plain: list[Took] = []
        self.replayed: list[Took] = []

    def over(self) -> bool:
        """True once there are enough replays to judge by."""
        return len(self.replayed) >= self._samples

    def pays(self) -> bool:
        """True if a replay is both sooner back and sooner done, or there is nothing to compare with."""
        plain, replayed = _fastest(self.plain), _fastest(self.replayed)
        return not self.plain or (replayed.back < plain.back and replayed.done < plain.done)

    def __str__(self) -> str:
        plain, replayed = _fastest(self.plain), _fastest(self.replayed)
        return (
            f"a replay was back after {replayed.back * 1e6:.1f} µs and done after {replayed.done * 1e6:.1f} µs, "
            f"a plain call after {plain.back * 1e6:.1f} and {plain.done * 1e6:.1f} µs"
        )


def _fastest(calls: list[Took]) -> Took:
    return Took(min((one.back for one in calls), default=0.0), min((one.done for one in calls), default=0.0))
