"""The timing: contenders take turns and medians are compared, so that ratios can be trusted."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def synchronize(device: str) -> None:
    """A GPU is given work and a call returns: the clock has to wait for it."""
    if device == "cuda":
        torch.cuda.synchronize()


def calls_per_turn(function: Callable[[], Any], device: str, turn: float) -> int:
    """The number of calls that fill about ``turn`` seconds, so that the clock's grain does not count."""
    for _ in range(3):  # a step's second call may be compiled again: its optimizer has a state then
        function()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            function()
        synchronize(device)
        spent = time.perf_counter() - start
        if spent >= turn / 2 or count >= 1 << 16:
            return count
        count *= 2


def medians(
    contenders: Mapping[str, Callable[[], Any]],
    device: str,
    turns: int = 15,
    turn: float = 0.02,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds per call of each contender; every turn measures all of them, one after the other.  With
    ``time.process_time`` for the clock what else the machine does counts less; it adds up threads, so use one."""
    counts = {name: calls_per_turn(function, device, turn) for name, function in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(turns):
        # In turn: what else the machine does hits all of them alike.
        for name, function in contenders.items():
            start = clock()
            for _ in range(counts[name]):
                function()
            synchronize(device)
            samples[name].append((clock() - start) / counts[name])
    return {name: statistics.median(times) for name, times in samples.items()}


def geometric_mean(values: Sequence[float]) -> float:
    """The mean for ratios: of one half and two it is one."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan
