"""Operators drawn by lot, as Triton kernels, against eager: on a GPU, or without one under Triton's interpreter.

The run prints INDUCTOR_SEED, with which it can be repeated, and INDUCTOR_FRACTION, how much of all operators and dtypes
is drawn.  INDUCTOR_RANDOM_GRAPHS_GPU says how many random graphs are tried.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st
from operator_samples import FRACTION, SEED, batches, built, check, drawn, drawn_sample
from simulated import INTERPRETED, simulated
from test_random_dtypes import GRAPHS as ANY_DTYPE
from test_random_dtypes import compiled_agrees
from test_random_graphs import LAYOUTS, SIZES, function_of, graphs

DEVICE = "cpu" if INTERPRETED else "cuda"
GRAPHS = int(os.environ.get("INDUCTOR_RANDOM_GRAPHS_GPU", "20"))
TOGETHER = 12
"""So many operators share a graph, as their kernels are compiled side by side."""

needs_triton = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA device or the interpreter"),
    pytest.mark.filterwarnings("ignore"),
]
BATCHES = batches(drawn("cpu" if INTERPRETED else "cuda"), 1 if INTERPRETED else TOGETHER)


@pytest.mark.parametrize("number", range(len(BATCHES)), ids=lambda number: f"INDUCTOR_SEED={SEED}-{number}")
class TestDrawn:
    pytestmark = needs_triton

    def test_operators(self, number):
        found = [sample for case in BATCHES[number] for sample in drawn_sample(*case, DEVICE)]
        check(found, **({"build": simulated} if INTERPRETED else {}))


@seed(SEED)
@settings(max_examples=GRAPHS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(graphs(), SIZES, SIZES, st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(LAYOUTS)))
def graphs_agree(graph, first, second, first_layout, second_layout):
    assume(not INTERPRETED or all(name != "bf16" for name, *_ in graph))  # the interpreter cuts, a GPU rounds
    torch.manual_seed(SEED)
    function = function_of(graph)
    with torch.device(DEVICE):
        inputs = [LAYOUTS[first_layout](first), LAYOUTS[second_layout](second)]
        expected = function(*inputs)
        compiled = simulated(function, inputs) if INTERPRETED else built(function, inputs)
        torch.testing.assert_close(list(compiled(*inputs)), expected, atol=1e-4, rtol=1e-4, equal_nan=True)


@seed(SEED)
@settings(max_examples=GRAPHS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(*ANY_DTYPE)
def graphs_of_any_dtype_agree(steps, wanted):
    assume(not INTERPRETED or all(name != "bf16" for name, *_ in steps))
    with torch.device(DEVICE):
        compiled_agrees(steps, wanted, simulated if INTERPRETED else built)


class TestRandomGraphs:
    pytestmark = needs_triton

    def test_compiled_agrees_with_eager(self):
        graphs_agree()

    def test_of_any_dtype(self):
        graphs_of_any_dtype_agree()


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter")
@pytest.mark.usefixtures("triton_interpreter")
def test_the_same_under_the_interpreter():
    """A process of its own because Triton decides at import."""
    env = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "INDUCTOR_SEED": str(SEED),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=env, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode == 0, f"INDUCTOR_SEED={SEED} INDUCTOR_FRACTION={FRACTION}\n{done.stdout[-5000:]}"
