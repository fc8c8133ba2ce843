"""``python -m search [--programs N] [--seconds S] [--seed S] [--jobs J] [--backend B]``

Programs made at random, run in eager and compiled; each kind of difference a few times, made small, and the counts.

A program of seed S runs again with ``--seed S --programs 1``.  ``--log FILE`` goes on where the file ends.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from search.findings import Findings
from search.parent import run
from search.runner import BACKENDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="search", description=__doc__)
    parser.add_argument("--programs", type=int, help="how many (1000 where no time is given)")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(1 << 31),
        help="the first program's; drawn and printed otherwise",
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--backend", choices=BACKENDS, default="eager")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one program may take")
    parser.add_argument("--log", type=Path, help="a file of findings and counts; seeds in it are not run again")
    parser.add_argument("--findings", type=Path, help="a folder for the programs that differ, made small")
    parser.add_argument("--as-found", action="store_true", help="leave programs as they were made")
    parser.add_argument("--most", type=float, default=0.0, help="the share that may differ without a failure")
    chosen = parser.parse_args()
    count = chosen.programs or (1000 if chosen.seconds is None else 1 << 31)
    findings = Findings(chosen.backend, chosen.findings, small=not chosen.as_found)
    print(f"search: from seed {chosen.seed}, backend {chosen.backend}, {chosen.jobs} jobs", flush=True)
    run(findings, chosen.seed, count, chosen.seconds, chosen.jobs, chosen.limit, chosen.log)
    print(findings.summary(), flush=True)
    if findings.kinds:
        print(f"again: python -m search --backend {chosen.backend} --programs 1 --seed {min(findings.seeds)}")
    return 1 if len(findings.seeds) > chosen.most * findings.count else 0


if __name__ == "__main__":
    sys.exit(main())
