"""Calls of the corpus's architectures, in eager and compiled: the ratio of each, and those that are below eager.

    python -m benchmarks.corpus [part of a name ...] --modes inference step --shard 1/4

The models are small, so what is measured is the cost of a call: guards, wrappers and launches beside eager's dispatch.
Seconds are those of the processor, the two taking turns.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from corpus.families import register_all
from corpus.step import step
from corpus.table import CASES, Case
from torch.utils import _pytree as pytree

import compile_api

TURNS = 9
BELOW = 1.0


def programs(case: Case, mode: str, device: str) -> dict[str, Callable[[], Any]]:
    """One call of the case by each contender, each with a model of its own."""
    torch.manual_seed(0)
    first = case.model().train(mode == "step").to(device)
    inputs = pytree.tree_map(lambda leaf: _on(leaf, device), case.inputs())
    made: dict[str, Callable[[], Any]] = {}
    for who, compiling in (("eager", lambda function: function), ("ours", compile_api.compile)):
        model = copy.deepcopy(first)
        if mode == "step":
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)
            called = compiling(step)
            # Copied, as some inputs are written to: caches.
            made[who] = lambda called=called, model=model, optimizer=optimizer: called(
                model, optimizer, copy.deepcopy(inputs)
            )
        else:
            called = compiling(model)
            made[who] = lambda called=called: called(*inputs[0], **inputs[1])
    return made


def _on(leaf: Any, device: str) -> Any:
    return leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf


def ratio(case: Case, mode: str, device: str) -> tuple[float, float]:
    """Milliseconds of eager and of ours, medians of turns."""
    calls = programs(case, mode, device)
    counts: dict[str, int] = {}
    spent: dict[str, list[float]] = {who: [] for who in calls}
    with torch.set_grad_enabled(mode == "step"):
        for who, call in calls.items():
            for _ in range(4):
                call()
            start = time.process_time()
            call()
            counts[who] = max(1, min(64, int(0.03 / max(time.process_time() - start, 1e-5))))
        for _ in range(TURNS):
            for who, call in calls.items():
                start = time.process_time()
                for _ in range(counts[who]):
                    call()
                if device == "cuda":
                    torch.cuda.synchronize()
                spent[who].append((time.process_time() - start) / counts[who] * 1e3)
    return statistics.median(spent["eager"]), statistics.median(spent["ours"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases whose names contain one of these")
    parser.add_argument("--modes", nargs="+", default=["inference", "step"], choices=("inference", "step"))
    parser.add_argument("--shard", default="1/1", help="every n-th case from the i-th: 1/4 to 4/4")
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    register_all()
    part, parts = map(int, chosen.shard.split("/"))
    cases = [case for case in CASES.values() if not chosen.names or any(name in case.name for name in chosen.names)]
    ratios: list[float] = []
    for case in cases[part - 1 :: parts]:
        for mode in chosen.modes:
            if mode == "step" and not case.trains:
                continue
            try:
                eager, ours = ratio(case, mode, chosen.device)
            except Exception as error:  # noqa: BLE001 - one case must not hide the others
                print(f"{case.name:32} {mode:10} {type(error).__name__}: {error}"[:160], flush=True)
                continue
            ratios.append(eager / ours)
            below = "   below eager" if ratios[-1] < BELOW else ""
            print(f"{case.name:32} {mode:10}{eager:9.3f}{ours:9.3f}{ratios[-1]:7.2f}x{below}", flush=True)
            compile_api.reset()
    if ratios:
        print(f"{len(ratios)} runs, geometric mean {statistics.geometric_mean(ratios):.2f}x, ", end="")
        print(f"{sum(each < BELOW for each in ratios)} below eager")


if __name__ == "__main__":
    main()
