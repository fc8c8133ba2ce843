"""Models wrapped for many ranks, compiled before, after, in place or in a whole step, learn as in eager."""

import os
import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "ranks/programs.py"
ONE_OF_EACH = ("replicas_compiled", "shards_in_whole_steps", "columns_and_rows", "collectives_in_functions")
ROUNDING = defaultdict(lambda: 1e-5, shards_in_half_precision=1e-3)
"""How far weights may be apart after three steps of Adam."""


def outcomes(backend, names, cache):
    """By program, what each of two ranks tells of it, from two processes that run them all."""
    env = {**os.environ, "COMPILE_API_CACHE": str(cache)}
    run = subprocess.run(
        [sys.executable, str(SCRIPT), backend, *names], env=env, capture_output=True, text=True, check=False
    )
    lines = defaultdict(list)
    for line in run.stdout.splitlines():
        name, difference, said = line.split("\t")
        lines[name].append((float(difference), said))
    assert set(lines) == set(names), run.stderr[-3000:]
    return lines


def check(told):
    for name, of_ranks in told.items():
        assert len(of_ranks) == 2, name
        assert all(difference < ROUNDING[name] and not said for difference, said in of_ranks), (name, of_ranks)


@pytest.mark.parametrize("wrapped", ["replicas", "shards", ("columns", "collectives")])
def test_each_rank_learns_what_it_learns_in_eager(wrapped, tmp_path):
    names = [name for name in runpy.run_path(str(SCRIPT))["PROGRAMS"] if name.startswith(wrapped)]
    check(outcomes("aot_eager", names, tmp_path))


def test_each_rank_learns_the_same_with_the_default_backend(tmp_path):
    check(outcomes("inductor", ONE_OF_EACH, tmp_path))
