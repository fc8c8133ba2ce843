"""The compiled module shares everything with its original; tested with a call of our own, so without compiling."""

import copy
import pickle

import pytest
import torch
from torch import nn

from compile_api.module import compiled_module


def doubled(module):
    return compiled_module(module, lambda *args: 2 * module(*args), doubled)


@pytest.fixture
def pair():
    original = nn.Linear(3, 2)
    return original, doubled(original)


def test_only_the_call_differs(pair):
    original, compiled = pair
    x = torch.randn(4, 3)
    assert torch.equal(compiled(x), 2 * original(x))
    assert type(compiled).__name__ == "Linear"
    assert isinstance(compiled, nn.Linear)
    assert repr(compiled) == repr(original)


def test_state_is_one_and_the_same(pair):
    original, compiled = pair
    compiled.weight = nn.Parameter(torch.zeros(2, 3))
    assert original.weight is compiled.weight
    compiled.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.ones(2)})
    assert original.bias.sum() == 2
    assert set(compiled.state_dict()) == {"weight", "bias"}
    compiled.to(torch.float64)
    assert original.weight.dtype == torch.float64


def test_submodules_and_hooks_added_to_one_are_on_the_other(pair):
    original, compiled = pair
    compiled.add_module("child", nn.ReLU())
    assert original.child is compiled.child
    assert dict(compiled.named_modules()).keys() == {"", "child"}


def test_copies_are_compiled_and_apart(pair):
    _, compiled = pair
    for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        x = torch.randn(1, 3)
        assert torch.equal(twin(x), compiled(x))
        assert twin.weight is not compiled.weight


def test_it_is_a_submodule_like_any_other(pair):
    _, compiled = pair
    outer = nn.Sequential(compiled, nn.ReLU())
    assert list(outer.state_dict()) == ["0.weight", "0.bias"]
    assert torch.equal(outer(torch.ones(1, 3)), compiled(torch.ones(1, 3)).relu())
