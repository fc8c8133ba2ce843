"""``python -m benchmarks.memory [cases]``: the most memory that one call holds at a time, eagerly and compiled (CPU).

What was there before the call, as weights are, does not count; what the call leaves behind, as gradients are, does.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import compile_api
from benchmarks.__main__ import make
from benchmarks.program import CASES

WARM = 3


def peak(run: Callable[[], Any]) -> int:
    """The most bytes held at a time, from what torch's allocator tells its profiler."""
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    # Each event is a number of bytes taken or given back: the largest sum so far is the peak.
    events.sort(key=lambda event: event.start_ns())
    return max(accumulate((event.nbytes() for event in events), initial=0))


def measure(name: str) -> tuple[int, int]:
    """The peaks of a case, eager's and ours, in bytes."""
    found = []
    for compiled in (False, True):
        program = make(name, "cpu")
        call = compile_api.compile(program.function) if compiled else program.function
        with torch.set_grad_enabled(program.training):
            for _ in range(WARM):
                program.run(call)
            found.append(peak(lambda program=program, call=call: program.run(call)))
    return found[0], found[1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help="all where none is given")
    names = parser.parse_args().cases or list(CASES)
    print(f"{'case':28}{'eager, MiB':>12}{'ours, MiB':>12}{'ours / eager':>14}")
    for name in names:
        eager, ours = measure(name)
        print(f"{name:28}{eager / 2**20:>12.1f}{ours / 2**20:>12.1f}{ours / max(eager, 1):>14.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
