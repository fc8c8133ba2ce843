"""Every test starts with nothing compiled, from the same seed."""

import runpy
from pathlib import Path

import pytest
import torch

import compile_api

WARM_PYTHON = Path(__file__).parents[1] / "packages/compile-api/tests/warm_python.py"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setenv("COMPILE_API_STRICT", "1")
    compile_api.reset()
    yield
    compile_api.reset()


@pytest.fixture(scope="session")
def python():
    """Runs Python with these arguments and gives what ``subprocess.run`` does; torch need not be imported again."""
    warm = runpy.run_path(str(WARM_PYTHON))["WarmPython"]()
    yield warm.run
    warm.close()


class Recording:
    """A backend that keeps the graphs it is given and runs them as they are."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward

    def operators(self):
        return [[node.target for node in gm.graph.nodes if node.op.startswith("call_")] for gm in self.graphs]


@pytest.fixture
def recording():
    return Recording()
