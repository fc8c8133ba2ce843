"""What the methods of a class find in their own file is relied on as well where the call begins in another one."""

import sys
import types

import pytest
import torch

import capture

MODELS = """
import functools, math
import torch
from torch import nn
from torch.nn import functional as F
from torch import ones_like as like

ACT, POOL, RED = F.relu, nn.AvgPool1d, torch.sum
calls = []

@functools.lru_cache
def table(n):
    calls.append(n)
    return torch.arange(n)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.emb = nn.Linear(4, 4), nn.Linear(4, 4)
        with torch.no_grad():
            self.head.weight.fill_(0.5), self.emb.weight.fill_(-0.5)

    def forward(self, x):
        y = ACT(self.emb(x) - 1) + RED(like(x)) * math.pi + POOL(2)(x[None])[0].sum() + max(1, 2)
        return y * 2 if self.head.weight is self.emb.weight else y + table(4)
"""


def silu(models, net):
    models.ACT = torch.nn.functional.silu


def pool(models, net):
    models.POOL = torch.nn.MaxPool1d


def reduction(models, net):
    models.RED = torch.mean


def made(models, net):
    models.like = torch.zeros_like


def constants(models, net):
    models.math = types.SimpleNamespace(pi=3.0)


def hidden(models, net):
    models.max = min


def tied(models, net):
    net.head.weight = net.emb.weight


ROOTS = {
    "torch's own": lambda net: torch.nn.Sequential(net),
    "a function": lambda net: lambda x: net(x),
    "itself": lambda net: net,
}


@pytest.fixture
def models(monkeypatch):
    module = types.ModuleType("models_of_this_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(MODELS, "models_of_this_test.py", "exec"), vars(module))
    return module


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("change", [silu, pool, reduction, made, constants, hidden, tied])
def test_what_the_program_binds_anew_is_noticed(change, root, models):
    net, x = models.Net(), torch.arange(8.0).view(2, 4)
    eager = ROOTS[root](net)
    ours = capture.optimize("eager", strict=True)(eager)
    assert torch.equal(ours(x), eager(x))
    change(models, net)
    assert torch.equal(ours(x), eager(x))


@pytest.mark.parametrize("root", ROOTS)
def test_cached_functions_of_the_program_are_called_as_often_as_in_eager(root, models):
    ours = capture.optimize("eager", strict=True)(ROOTS[root](models.Net()))
    for rows in (2, 3, 4):
        ours(torch.ones(rows, 4))
    assert models.calls == [4]
