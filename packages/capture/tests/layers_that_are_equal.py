"""Layers with one of everything that layers may differ in, and nets of these, compared with eager with equal calls."""

import copy

import torch
from torch import nn

import capture


def assert_same(expected, actual):
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert (actual.dtype, actual.requires_grad) == (expected.dtype, expected.requires_grad)
        assert torch.equal(actual, expected)
    elif isinstance(expected, (list, tuple, dict)):
        assert len(actual) == len(expected)
        for one, other in zip(*(each.values() if isinstance(each, dict) else each for each in (expected, actual))):
            assert_same(one, other)
    else:
        assert actual == expected


class Layer(nn.Module):
    """With one of everything that layers may differ in."""

    flag, scale, limit = False, 1.0, None

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.table = {"a": 1.0, "b": 2.0}
        self.sizes = [1, 2]
        self.register_buffer("bias", torch.ones(4))

    def forward(self, x, added=None):
        if self.flag or hasattr(self, "extra"):
            x = x * 3
        for name, factor in self.table.items():
            x = x + factor if name == "a" else x * factor
        if self.bias is not None:
            x = x + self.bias
        if added is not None:
            x = x + added[0]
        return self.norm(self.inner(x)) * self.scale + sum(self.sizes)


class Net(nn.Module):
    def __init__(self, make=Layer, count=6):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(make() for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Counted:
    def __init__(self, **options):
        self.graphs = 0
        options = {"strict": True, "equal_calls": True, "verify_equal_calls": False, **options}
        self.capture = capture.optimize(self._keep, options=capture.Options(**options))

    def _keep(self, module, example_inputs):
        self.graphs += 1
        self.nodes = [(node.op, str(node.target), str(node.args)) for node in module.graph.nodes]
        return module.forward


def check(net, *args):
    """Right where equal calls are verified, and where they are done again."""
    for verify in (True, False):
        ours, theirs = copy.deepcopy(net), copy.deepcopy(net)
        called = Counted(verify_equal_calls=verify).capture(ours)
        for _ in range(2):
            assert_same(theirs(*args), called(*args))
        assert_same(theirs.state_dict(), ours.state_dict())
