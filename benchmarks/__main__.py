"""``nox -s bench -- [cases] [--start] [--json FILE]``: a table of ratios, eager and torch.compile beside ours."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

import compile_api
from benchmarks import cases, networks  # noqa: F401 - both fill the table
from benchmarks.program import CASES, Program
from benchmarks.start import cold_and_warm
from benchmarks.timing import geometric_mean, medians

CONTENDERS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda function: function,
    "ours": compile_api.compile,
    "torch.compile": torch.compile,
}


def make(name: str, device: str) -> Program:
    """The case with the same random numbers each time."""
    torch.manual_seed(0)
    return CASES[name](device)


def measure(name: str, device: str, wanted: Sequence[str], processor_time: bool = False) -> dict[str, float]:
    """Median seconds of each contender, each with a program of its own; results are compared once with eager's."""
    # torch's compiler keeps few versions of one code, whatever program it belongs to.
    torch.compiler.reset()
    turns: dict[str, Callable[[], Any]] = {}
    for who in wanted:
        program = make(name, device)
        turns[who] = partial(program.run, CONTENDERS[who](program.function))
    with torch.set_grad_enabled(program.training):
        # Cloned: a program may return what its next call writes to.
        found = {who: tree_map(torch.Tensor.clone, tensors_of(turn())) for who, turn in turns.items()}
        for who in wanted:
            torch.testing.assert_close(found[who], found["eager"], rtol=1e-2, atol=1e-2)
        if processor_time:
            return medians(turns, device, turns=7, clock=time.process_time)
        return medians(turns, device)


def tensors_of(result: Any) -> list[torch.Tensor]:
    """What is compared with eager; numbers beside tensors are not."""
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def run_table(
    names: list[str], device: str, wanted: Sequence[str], processor_time: bool = False
) -> list[dict[str, Any]]:
    """Prints the times and ratios of the cases; returns them as data."""
    others = [who for who in wanted if who != "ours"]
    print(f"{'case':28}" + "".join(f"{who:>15}" for who in wanted) + "".join(f"{f'vs {who}':>18}" for who in others))
    rows: list[dict[str, Any]] = []
    for name in names:
        seconds = measure(name, device, wanted, processor_time)
        ratios = {f"vs {who}": seconds[who] / seconds["ours"] for who in others}
        rows.append({"case": name, **seconds, **ratios})
        times = "".join(f"{seconds[who] * 1e6:>15.1f}" for who in wanted)
        print(f"{name:28}{times}" + "".join(f"{ratio:>17.2f}x" for ratio in ratios.values()), flush=True)
    # Ratios multiply: half as fast in one case and twice as fast in another make one.
    means = [geometric_mean([row[f"vs {who}"] for row in rows]) for who in others]
    title = "geometric mean (times in µs)"
    print(f"{title:{28 + 15 * len(wanted)}}" + "".join(f"{mean:>17.2f}x" for mean in means))
    return rows


def start_table(names: list[str], device: str, processor_time: bool = False) -> list[dict[str, Any]]:
    """Prints the first calls, cold and warm; returns them as data."""
    print(f"\n{'first call, seconds':28}{'cold ours':>11}{'cold t.c.':>11}{'warm ours':>11}{'warm t.c.':>11}")
    rows, clock = [], "processor" if processor_time else "wall"
    for name in names:
        ours, theirs = (cold_and_warm(name, who, device, clock) for who in ("ours", "torch.compile"))
        rows.append({"case": name, "cold": ours[0], "warm": ours[1], "their_cold": theirs[0], "their_warm": theirs[1]})
        print(f"{name:28}{ours[0]:>11.2f}{theirs[0]:>11.2f}{ours[1]:>11.2f}{theirs[1]:>11.2f}", flush=True)
    cold = geometric_mean([row["their_cold"] / row["cold"] for row in rows])
    warm = geometric_mean([row["their_warm"] / row["warm"] for row in rows])
    print(f"geometric mean: cold {cold:.2f}x, warm {warm:.2f}x")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"one of {', '.join(CASES)}; all where none is given")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--start", action="store_true", help="measure first calls in fresh processes too")
    parser.add_argument("--without", action="append", default=[], choices=["torch.compile"], help="leave out")
    parser.add_argument("--processor-time", action="store_true", help="for a busy machine; with one thread")
    parser.add_argument("--json", type=Path, help="write the figures here")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.cases if name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    names = chosen.cases or list(CASES)
    wanted = [who for who in CONTENDERS if who not in chosen.without]
    # Time of processors adds up over threads.
    if chosen.processor_time:
        torch.set_num_threads(1)
    print(f"torch {torch.__version__} on {chosen.device}, {torch.get_num_threads()} threads")
    rows = run_table(names, chosen.device, wanted, chosen.processor_time)
    result = {"device": chosen.device, "torch": torch.__version__, "run": rows}
    if chosen.start:
        result["start"] = start_table(names, chosen.device, chosen.processor_time)
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
