"""``python -m corpus.lengths [part of a name ...] [--mode inference|training] [--compiled]``: whole models over inputs
of other lengths, batches and image sizes: one graph for the first and one more for all others, and eager's results."""

from __future__ import annotations

import argparse
import copy
import gc
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import capture
import compile_api
from corpus.families import register_all
from corpus.runner import differs, infer, train
from corpus.stretched import LENGTHS, Call, counted, reasons, with_length
from corpus.table import CASES, Case

SIDES = (64, 96, 80, 160, 128, 112)
MODES = ("inference", "training")


@dataclass(frozen=True, slots=True)
class Varied:
    """A case with one length of its inputs varied."""

    case: Case
    length: int
    lengths: Sequence[int]
    calls: Sequence[Call]


def varied(case: Case) -> Iterator[Varied]:
    """Each length that the inputs have, but for those with which the model does not run."""
    torch.manual_seed(0)
    given = case.inputs()
    sizes = [size for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor) for size in leaf.shape]
    model = case.model().eval()
    for length in dict.fromkeys(size for size in sizes if size > 1):
        for lengths in (SIDES, LENGTHS) if length >= 32 else (LENGTHS,):
            calls = [with_length(given, length, other, numbers_too=False) for other in lengths]
            if _runs(model, copy.deepcopy(calls)):
                yield Varied(case, length, lengths, calls)
                break


def _runs(model: torch.nn.Module, calls: Sequence[Call]) -> bool:
    """True if the model takes these inputs, and gives the same twice: one that is given positions out of order may read
    memory that is nobody's."""
    twin = copy.deepcopy(model)
    try:
        return not any(differs(infer(model, model, copy.deepcopy(call)), infer(twin, twin, call)) for call in calls)
    except Exception:  # noqa: BLE001 - whatever it raises, it takes no such inputs
        return False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one case in one mode over all lengths."""

    of: Varied
    mode: str
    difference: str
    first: tuple[int, int]
    all: tuple[int, int]
    told: Sequence[str]
    seconds: float

    @property
    def is_right(self) -> bool:
        return not self.difference

    @property
    def serves_all(self) -> bool:
        """True if there is at most one more graph, and one more break, than for the first length, for each."""
        return self.all[0] <= 2 * self.first[0] and self.all[1] <= 2 * self.first[1]

    def __str__(self) -> str:
        good = "right" if self.is_right else f"DIFFERS {self.difference}"
        text = (
            f"{self.of.case.name:36} {self.mode:9} {self.of.length:3} varies: graphs {self.first[0]} -> {self.all[0]}"
        )
        text += f", breaks {self.first[1]} -> {self.all[1]}, {good}, {self.seconds:.1f} s"
        return "\n    ".join([text, *(() if self.serves_all else dict.fromkeys(self.told))])


def run(of: Varied, mode: str, optimize: Callable[..., Any], log: capture.Log, exact: bool) -> Outcome:
    """One region for all lengths, as a program has it: the second length makes sizes vary, and the others should fit.
    One region for all lengths, as a program has it: the second length makes sizes vary, and the others should fit."""
    torch.manual_seed(0)
    plain = of.case.model().train(mode == "training")
    # Running statistics change at each call, so each of the two has its own.
    copied = copy.deepcopy(plain)
    region = optimize(copied)
    step = infer if mode == "inference" else train
    difference, counts, start = "", [], time.perf_counter()
    for length, call in zip(of.lengths, of.calls, strict=True):
        expected = step(plain, plain, copy.deepcopy(call))
        actual = step(region, copied, copy.deepcopy(call))
        difference = difference or differs(expected, actual, f"at {length}", tolerance=0.0 if exact else 1e-3)
        counts.append(counted(log))
    return Outcome(of, mode, difference, counts[0], counts[-1], reasons(log), time.perf_counter() - start)


def main() -> int:
    parser = argparse.ArgumentParser(prog="corpus.lengths", description=__doc__)
    parser.add_argument("names", nargs="*", help="run the cases whose names contain one of these")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--compiled", action="store_true", help="the default backend instead of the graphs as they are")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    register_all()
    outcomes, failed, backend = [], 0, compile_api.backend_function() if chosen.compiled else "eager"
    for case in [case for case in CASES.values() if not chosen.names or any(n in case.name for n in chosen.names)]:
        for of in varied(case):
            for mode in chosen.mode or (MODES if case.trains else MODES[:1]):
                log = capture.Log()
                try:
                    outcomes.append(run(of, mode, capture.optimize(backend, log=log), log, not chosen.compiled))
                    print(outcomes[-1], flush=True)
                except Exception:  # noqa: BLE001 - one case must not hide the others
                    failed += 1
                    print(f"{case.name} {mode} FAILED", traceback.format_exc(limit=-4), sep="\n", flush=True)
                gc.collect()
    right, served = sum(one.is_right for one in outcomes), sum(one.serves_all for one in outcomes)
    print(f"{len(outcomes)} runs over six sizes: {right} right, {served} with one graph more, {failed} failed")
    return 0 if right == served == len(outcomes) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
