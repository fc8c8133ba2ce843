"""Every test starts with nothing compiled, and mistakes of ours are raised."""

import sys

import pytest
import torch

import compile_api


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
