"""Stretches of a sequence that repeat, with their start, period and number.

Must not know: graphs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SMALLEST_LAYER = 10
"""The fewest operators of a layer: calling a smaller one costs more than compiling it again."""
LEAST_SAVED = 64
"""The fewest operators that a stack has to save from being traced and compiled again."""
_SEVERAL = 64
"""The operators of several smaller layers that are one layer together: optimizers write to one parameter at a time."""
_PERIODS_TRIED = 24
_TRIED = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """`times` equal periods of `period` places, from `start` on, and `rest` places more of the next one."""

    start: int
    period: int
    times: int
    rest: int = 0

    def joined(self, count: int) -> Stretch:
        """This stretch in longer periods: each is so many of the old ones."""
        length, period = self.period * self.times + self.rest, self.period * count
        return Stretch(self.start, period, length // period, length % period)

    def shifted(self, by: int) -> Stretch:
        """This stretch without its first places: the first period begins that much later."""
        length = self.period * self.times + self.rest - by
        return Stretch(self.start + by, self.period, length // self.period, length % self.period)


def stretches(keys: Sequence[int], weights: Sequence[int]) -> list[Stretch]:
    """The stretches that save enough, those first that save most; of equal ones the one of the smaller period.
    `weights` are the operators at each place."""
    up_to = [0, *itertools.accumulate(weights)]
    saved: dict[Stretch, int] = {}
    for stretch in (stretch for period in _likely_periods(keys) for stretch in _stretches(keys, period)):
        layer = up_to[stretch.start + stretch.period] - up_to[stretch.start]
        if 0 < layer < SMALLEST_LAYER:
            stretch = stretch.joined(-(-_SEVERAL // layer))
            layer *= -(-_SEVERAL // layer)
        if layer >= SMALLEST_LAYER and (stretch.times - 1) * layer >= LEAST_SAVED:
            saved[stretch] = (stretch.times - 1) * layer
    return sorted(saved, key=lambda stretch: (-saved[stretch], stretch.period))[:_TRIED]


def _likely_periods(keys: Sequence[int]) -> list[int]:
    """The most frequent distances from one place to the next with the same key."""
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for place, key in enumerate(keys):
        distances[place - last.get(key, place)] += 1
        last[key] = place
    del distances[0]
    return [period for period, _ in distances.most_common(_PERIODS_TRIED)]


def _stretches(keys: Sequence[int], period: int) -> Iterator[Stretch]:
    start = None
    for place in range(len(keys) - period + 1):
        same = place + period < len(keys) and keys[place] == keys[place + period]
        if same and start is None:
            start = place
        elif not same and start is not None:
            length = place - start + period
            yield Stretch(start, period, length // period, length % period)
            start = None
