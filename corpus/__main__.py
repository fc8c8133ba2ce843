"""``python -m corpus [part of a name ...] [--mode inference|training]``: a line for each case, and the totals.

Fails where a result differs, a second call compiles again, or too few are captured whole.
"""

from __future__ import annotations

import argparse
import gc
import sys
import traceback

from corpus.families import register_all
from corpus.runner import run
from corpus.table import CASES

MODES = ("inference", "training")
WHOLE = 0.95
"""How many of the runs are to be one graph without a break."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="corpus", description=__doc__)
    parser.add_argument("names", nargs="*", help="run the cases whose names contain one of these")
    parser.add_argument("--mode", choices=MODES, action="append")
    chosen = parser.parse_args()
    register_all()
    cases = [case for case in CASES.values() if not chosen.names or any(part in case.name for part in chosen.names)]
    outcomes, failed = [], 0
    for case in cases:
        for mode in chosen.mode or MODES:
            if mode == "training" and not case.trains:
                continue
            try:
                outcomes.append(run(case, mode))
                print(outcomes[-1], flush=True)
            except Exception:  # noqa: BLE001 - one case must not hide the others
                failed += 1
                print(f"{case.name} {mode} FAILED", traceback.format_exc(limit=-4), sep="\n", flush=True)
            gc.collect()
    whole, right = sum(one.is_whole for one in outcomes), sum(one.is_right for one in outcomes)
    print(f"{len(cases)} architectures, {len(outcomes)} runs: {whole} whole, {right} right, {failed} failed")
    return 0 if right == len(outcomes) and not failed and whole >= WHOLE * len(outcomes) else 1


sys.exit(main())
