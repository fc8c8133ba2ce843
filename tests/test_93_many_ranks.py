"""Models wrapped for many ranks, compiled before, after, in place or in a whole step, learn as in eager."""

import os
import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "ranks/programs.py"
ROUNDING = defaultdict(lambda: 1e-5, shards_in_half_precision=1e-3)
"""How far weights may be apart after three steps of Adam."""


def names():
    return list(runpy.run_path(str(SCRIPT))["PROGRAMS"])


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, request):
    """By program, what each of two ranks tells of it, from two processes that run them all."""
    wanted = [item.callspec.params["name"] for item in request.session.items if item.module is request.module]
    env = {**os.environ, "COMPILE_API_CACHE": str(tmp_path_factory.mktemp("cache"))}
    run = subprocess.run([sys.executable, str(SCRIPT), *wanted], env=env, capture_output=True, text=True, check=False)
    lines = defaultdict(list)
    for line in run.stdout.splitlines():
        name, difference, said = line.split("\t")
        lines[name].append((float(difference), said))
    return lines, run.stderr


@pytest.mark.parametrize("name", names())
def test_each_rank_learns_what_it_learns_in_eager(outcomes, name):
    lines, errors = outcomes
    assert len(lines[name]) == 2, errors[-3000:]
    assert all(difference < ROUNDING[name] and not said for difference, said in lines[name]), lines[name]
