"""What is said on a torch that is newer than every one that was tested."""

import warnings

import pytest
import torch

import compile_api
from compile_api import tested
from compile_api.state import STATE


def test_a_newer_torch_is_warned_of_once():
    told = set()
    with pytest.warns(tested.NewerTorchWarning, match=r"torch 99\.0\.1\+cpu is newer .* with \(2\.11 to "):
        tested.warn_of_newer("99.0.1+cpu", warnings.warn, told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tested.warn_of_newer("99.0.1+cpu", warnings.warn, told)


@pytest.mark.parametrize("version", [*tested.TESTED, str(torch.__version__), "2.14.9+cu130", "2.13.0a0+git"])
def test_a_tested_torch_is_not_warned_of(version):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tested.warn_of_newer(version, warnings.warn, set())


def test_compile_warns(monkeypatch):
    monkeypatch.setattr(STATE, "newer_torch_warned", set())
    monkeypatch.setattr(torch, "__version__", "99.0")
    with pytest.warns(tested.NewerTorchWarning, match=tested.PAGE):
        compiled = compile_api.compile(torch.sin, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin())
