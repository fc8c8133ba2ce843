"""Every test starts with nothing compiled, and mistakes of ours are raised."""

import sys
from pathlib import Path

import pytest
import torch

import compile_api

sys.path.insert(0, str(Path(__file__).parent))  # tests share what stands beside them


@pytest.fixture(scope="session")
def python():
    """Runs Python with these arguments and gives what ``subprocess.run`` does; torch need not be imported again."""
    from warm_python import WarmPython

    warm = WarmPython()
    yield warm.run
    warm.close()


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setenv("COMPILE_API_STRICT", "1")
    compile_api.reset()
    yield
    compile_api.reset()


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes a module that can be imported by name while the test runs."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return tmp_path / f"{name}.py"

    return write
