"""A child process that runs programs one after another and says what came of each, a line of JSON for each.

The parent reads the lines: a program whose start was told and whose end was not took the process down, or hung.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
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
        say(**tried(seed, backend))
        if index % 50 == 49:
            gc.collect()


def tried(seed: int, backend: str) -> dict[str, Any]:
    """Makes and runs one program; a fault of the search itself is a result, too."""
    try:
        text = generate(seed)
        say(made=text)  # so far only eager ran, and the parent needs to make none itself
        verdict = judge(text, backend)
    except Exception as error:  # noqa: BLE001 - of the search itself, or out of a hook that runs when nobody calls
        told = "".join(traceback.format_exception(error, limit=-6))
        return {
            "seed": seed,
            "raised": False,
            "graphs": 0,
            "signature": f"search {type(error).__name__}",
            "difference": told,
        }
    found = str(verdict.difference) if verdict.difference else ""
    return {
        "seed": seed,
        "raised": verdict.raised,
        "graphs": verdict.graphs,
        "signature": verdict.signature,
        "documented": verdict.documented,
        "difference": found,
    }


def say(**what: Any) -> None:
    """Writes a line to the real standard output, whatever a program did to the other."""
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
    main(sys.argv[1], list(map(int, sys.argv[2].split(","))))
