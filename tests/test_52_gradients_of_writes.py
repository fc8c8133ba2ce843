"""Gradients through every operator that writes are eager's, with their Nones and errors, on every level.

A part by default; all of them with ``GRADIENTS=all`` (``nox -s gradients``).
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import compile_api
from programs.written_operators import operators, programs, same

ALL = os.environ.get("GRADIENTS") == "all"
BACKENDS = ("eager", "aot_eager", *(["inductor"] if ALL else []))
# The derivative is missing, which eager says wherever backward passes; the gradient asked for lies beyond.
BEYOND = {("floor_divide", "alias"), ("floor_divide", "slice"), ("heaviside", "alias"), ("heaviside", "slice")}
CHOSEN = operators() if ALL else operators()[::16]


@pytest.mark.without_graphs("of some operators there is only `out=`, which eager refuses for gradients", cases="some")
@pytest.mark.parametrize("operator", CHOSEN, ids=lambda operator: operator.full_name)
@pytest.mark.filterwarnings("ignore")
def test_an_operator_that_writes(operator):
    different, beyond, asked = [], set(), 0
    ends = ("backward", "grad", "outside") if ALL else ("backward", "outside")
    for program in programs(operator, ends=ends):
        expected = program.outcome(lambda step: step)
        for backend in BACKENDS:
            compile_api.reset()
            asked += 1
            compiled = compile_api.compile(program.step, backend=backend)
            found = program.outcome(lambda step, compiled=compiled: compiled)
            # Into `out=` of another size, or past a gradient, CPython writes.
            assert program.form == "out" or compile_api.report(compiled).frames, f"{program} has no graph"
            if same(expected, found):
                continue
            if (operator.name, program.form) in BEYOND:
                beyond.add((operator.name, program.form))
            else:
                different.append((str(program), backend, expected, found))
    print(f"{operator.full_name}: {asked} programs compared")
    assert not different
    assert beyond == {entry for entry in BEYOND if entry[0] == operator.name}, "what works is no exception any more"
