"""``python -m corpus [part of a name ...] [--mode inference|training|step]``: a line for each case, and the totals.

Fails where a result differs, a second call compiles again, or too few are captured whole.  ``step`` is asked
for by name: whole training steps in one compiled function, with ``--backend`` to compile them further.
"""

from __future__ import annotations

import argparse
import gc
import sys
import traceback
from pathlib import Path

from search.runner import BACKENDS

from corpus import runner, step
from corpus.families import register_all
from corpus.record import Record
from corpus.table import CASES, Case

MODES = ("inference", "training")
WHOLE = 0.95
"""The share of the runs that are to be one graph without a break."""


def main() -> int:
    """Runs the chosen cases and prints a line for each; the exit status tells whether enough of them are right and
    whole."""
    chosen = arguments()
    register_all()
    cases = [case for case in CASES.values() if not chosen.names or any(part in case.name for part in chosen.names)]
    part, parts = map(int, chosen.shard.split("/"))
    record, runs = Record(chosen.log), 0
    right, whole, wrong = 0, 0, []
    for case in cases[part - 1 :: parts]:
        for mode in chosen.mode or MODES:
            if mode != "inference" and not case.trains:
                continue
            name = f"{case.name} {mode} {chosen.backend}"
            # A run that was stopped goes on behind the last case that it began.
            if name not in record:
                record.begin(name)
                record.end(name, *tried(case, mode, chosen.backend))
            runs += 1
            print(record.told(name), flush=True)
            right += record.is_right(name)
            whole += bool(record.ended[name].get("whole"))
            if not record.is_right(name):
                wrong.append(name)
    print(f"{len(cases[part - 1 :: parts])} architectures, {runs} runs: {whole} whole, {right} right")
    print(*(f"not right: {name}" for name in wrong), sep="\n")
    # Breaks are counted where graphs run as they are; with a backend only results matter.
    return 0 if right == runs and (whole >= WHOLE * runs or chosen.backend != "eager") else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="corpus", description=__doc__)
    parser.add_argument("names", nargs="*", help="run the cases whose names contain one of these")
    parser.add_argument("--mode", choices=(*MODES, "step"), action="append")
    parser.add_argument(
        "--backend", choices=BACKENDS, default="eager", help="of whole steps; all but eager need compile_api"
    )
    parser.add_argument("--shard", default="1/1", help="every n-th case from the i-th: 1/4 to 4/4")
    parser.add_argument("--log", type=Path, help="a file of what came out; cases in it are not run again")
    return parser.parse_args()


def tried(case: Case, mode: str, backend: str) -> tuple[bool, bool, str]:
    """Runs a case and returns two truths, that it is right and that it is whole, and the lines to print."""
    try:
        outcome = step.run(case, backend) if mode == "step" else runner.run(case, mode)
    except Exception:  # noqa: BLE001 - one case must not hide the others
        return False, False, f"{case.name} {mode} FAILED\n{traceback.format_exc(limit=-4)}"
    finally:
        gc.collect()
    return outcome.is_right, outcome.is_whole, str(outcome)


sys.exit(main())
