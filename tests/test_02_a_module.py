"""A compiled module is the module in every respect but speed."""

import copy
import pickle

import pytest
import torch
from torch import nn

import compile_api


class MyModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(100, 10)

    def forward(self, x):
        return nn.functional.relu(self.lin(x))


@pytest.fixture
def module():
    return MyModule()


def test_it_computes_the_same(module):
    x = torch.randn(10, 100)
    compiled = compile_api.compile(module)
    torch.testing.assert_close(compiled(x), module(x))
    assert len(compile_api.report(compiled).captured) == 1


def test_parameters_are_inputs_of_the_graph(module, recording):
    compile_api.compile(module, backend=recording)(torch.randn(2, 100))
    placeholders = [node for node in recording.graphs[0].graph.nodes if node.op == "placeholder"]
    assert len(placeholders) == 3
    assert not list(recording.graphs[0].parameters())


def test_it_is_still_the_module(module):
    compiled = compile_api.compile(module)
    assert isinstance(compiled, MyModule)
    assert list(compiled.state_dict()) == list(module.state_dict())
    assert compiled.lin is module.lin
    compiled.eval()
    assert not module.training
    compiled.extra = 3
    assert module.extra == 3


def test_a_written_parameter_is_seen(module):
    compiled = compile_api.compile(module)
    x = torch.randn(2, 100)
    compiled(x)
    with torch.no_grad():
        module.lin.weight.zero_()
        module.lin.bias.fill_(1.0)
    assert torch.equal(compiled(x), torch.ones(2, 10))
    assert len(compile_api.report(compiled).captured) == 1


def test_train_and_eval_are_told_apart():
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    compiled = compile_api.compile(module)
    x = torch.ones(1000, 4)
    assert (compiled(x) == 0).any()
    module.eval()
    torch.testing.assert_close(compiled(x), module(x))
    assert len(compile_api.report(compiled).captured) == 2


def test_deepcopy_and_pickle_stay_compiled(module):
    compiled = compile_api.compile(module, backend="eager")
    x = torch.randn(2, 100)
    expected = compiled(x)
    twin, other = copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))
    assert twin.lin is not compiled.lin
    assert torch.equal(twin(x), expected)
    assert torch.equal(other(x), expected)
    assert [len(compile_api.report(each).captured) for each in (compiled, twin, other)] == [1, 1, 1]


def test_hooks_run_once_per_call(module):
    seen = []
    module.register_forward_hook(lambda *_: seen.append(1))
    compiled = compile_api.compile(module, backend="eager")
    compiled(torch.randn(2, 100))
    compiled(torch.randn(2, 100))
    assert len(seen) == 2
    assert len(compile_api.report(compiled).captured) == 1


def test_a_decorated_class_has_compiled_instances():
    @compile_api.compile
    class Doubling(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    module = Doubling(3, 3)
    x = torch.randn(2, 3)
    torch.testing.assert_close(module(x), nn.functional.linear(x, module.weight, module.bias) * 2)
    assert len(compile_api.report(Doubling).captured) == len(compile_api.report(module).captured) == 1


def test_a_class_without_calls_is_met_with_a_sentence():
    with pytest.raises(TypeError, match="instances of Plain cannot be called"):
        compile_api.compile(type("Plain", (), {}))
