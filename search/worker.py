"""A child process that runs programs one after another and says what came of each, a line of JSON for each.

The parent reads the lines: a program whose start was told and whose end was not took the process down, or hung.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import torch

from search.generator import generate
from search.runner import judge

MEMORY = 4 << 30


def main(backend: str, seeds: list[int]) -> None:
    torch.set_num_threads(1)
    limit_memory()
    for index, seed in enumerate(seeds):
        say(start=seed)
        verdict = judge(generate(seed), backend)
        found = verdict.difference
        say(
            seed=seed, raised=verdict.raised, graphs=verdict.graphs, call=verdict.call,
            signature=verdict.signature, difference=str(found) if found else "",
        )  # fmt: skip
        if index % 50 == 49:
            gc.collect()


def say(**what: Any) -> None:
    sys.__stdout__.write(json.dumps(what) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def limit_memory() -> None:
    """A program that asks for all memory gets an error, as on a smaller machine, and the others go on."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))


if __name__ == "__main__":
    first, last = map(int, sys.argv[2].split(":"))
    main(sys.argv[1], list(range(first, last)))
