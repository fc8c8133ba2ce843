"""Whole training steps: an optimizer asks for all parameters before the layers do, and those are equal all the same."""

import copy
import random

import pytest
import torch
from layers_that_are_equal import Counted, assert_same
from torch import nn
from torch.nn import functional

from capture.evaluator.equal_calls import machine, recipes

SCALE = nn.Parameter(torch.full((4,), 0.5))
"""Of no layer: all reach it as a global name."""


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        y = functional.silu(self.inner(x)) * self.weight + SCALE
        return x + (y.t().contiguous().t() - self.mean).tanh() * (0.2 if self.weight.requires_grad else 0.3)


class Noting(Layer):
    def forward(self, x):
        with torch.no_grad():
            self.mean.add_(x.mean(0))
        return super().forward(x)


class Looking(Layer):
    def forward(self, x):
        return super().forward(x) * (0.2 if self.weight.grad is None else 0.3)


class Writing(Layer):
    def forward(self, x):
        with torch.no_grad():
            self.weight.mul_(0.5)
        return super().forward(x.detach())


class Net(nn.Module):
    def __init__(self, make=Layer, count=6):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(make() for _ in range(count))
        self.last = nn.Parameter(torch.ones(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * self.last


def _tie(net, place):
    net.layers[place].weight = net.layers[place - 1].weight


def _tie_to_the_root(net, place):
    net.last = net.layers[place].weight


def _tie_within(net, place):
    net.layers[place].inner.bias = net.layers[place].weight


def _view(net, place):
    net.layers[place].weight.data = net.layers[place - 1].weight.data


def _overlap(net, place):
    net.layers[place].weight.data = net.layers[place].inner.weight.data[0]


def _freeze(net, place):
    net.layers[place].weight.requires_grad_(False)


def _global(net, place):
    net.layers[place].weight = SCALE


def _gradient(net, place):
    net.layers[place].weight.grad = torch.ones(4)


def _tag(net, place):
    net.layers[place].weight.tag = 3


def _hook(net, place):
    net.layers[place].weight.register_hook(lambda grad: grad * 2)


def _double(net, place):
    net.layers[place].inner.weight = nn.Parameter(torch.ones(4, 4).t())


CHANGES = [_tie, _tie_to_the_root, _tie_within, _view, _overlap, _freeze, _global, _gradient, _tag, _hook, _double]
MAKES = [Layer, Noting, Looking, Writing]


def step_of(net, *, ahead, none=True, momentum=0.0):
    parameters = list(dict.fromkeys(each for each in net.parameters() if each.requires_grad))
    optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=momentum)

    def step(x):
        if ahead == "zero_grad":
            optimizer.zero_grad(set_to_none=none)
        elif ahead == "norm":
            x = x + sum(parameter.detach().sum() for parameter in parameters).tanh()
        elif ahead == "write":
            with torch.no_grad():
                for parameter in parameters:
                    parameter.mul_(0.9)
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        if not ahead:
            optimizer.zero_grad(set_to_none=none)
        return loss.detach()

    return step


def check(net, **options):
    """Three steps by both ways; how many calls were done again."""
    for verify in (True, False):
        SCALE.grad = None
        held = SCALE.detach().clone()
        seen = []
        for compiled in (False, True):
            SCALE.data.copy_(held)
            SCALE.grad = None
            mine = copy.deepcopy(net, {id(SCALE): SCALE})
            step = step_of(mine, **options)
            step = Counted(verify_equal_calls=verify, recompile_limit=64).capture(step) if compiled else step
            losses = [step(torch.arange(8.0).reshape(2, 4) / 10 + n) for n in range(3)]
            seen.append([losses, mine.state_dict(), [p.grad for p in mine.parameters()], SCALE.detach().clone()])
        SCALE.data.copy_(held)
        assert_same(*seen)


@pytest.fixture(autouse=True)
def done(monkeypatch):
    """The calls that were done again."""
    found, again = [], machine.MachineOfEqualCalls._done_again
    monkeypatch.setattr(
        machine.MachineOfEqualCalls, "_done_again", lambda self, *told: (found.append(1), again(self, *told))[1]
    )
    return found


@pytest.mark.parametrize("ahead", ["zero_grad", "norm", "write", ""])
@pytest.mark.parametrize("make", [Layer, Noting])
def test_layers_whose_parameters_were_met_are_equal(make, ahead, done):
    check(Net(make), ahead=ahead)
    assert len(done) >= 3


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("ahead", ["zero_grad", "norm", "write"])
def test_one_that_differs(change, ahead):
    net = Net()
    change(net, 4)
    check(net, ahead=ahead)


@pytest.mark.parametrize("seed", range(24))
def test_steps_at_random(seed):
    draw = random.Random(seed)
    net = Net(draw.choice(MAKES), count=draw.randrange(4, 8))
    for _ in range(draw.randrange(3)):
        draw.choice(CHANGES)(net, draw.randrange(1, 4))
    check(
        net, ahead=draw.choice(["zero_grad", "norm", "write", ""]), none=draw.random() < 0.7, momentum=0.9 * (seed % 2)
    )


def test_nothing_runs_where_the_result_is_known(monkeypatch):
    """Of layers that nobody differentiates; views are made each time."""
    told, again = [], recipes.done_again
    monkeypatch.setattr(machine, "done_again", lambda recipe, *rest: (told.append(recipe), again(recipe, *rest))[1])
    net, x = Net(), torch.ones(2, 4)
    with torch.no_grad():
        assert_same(net(x), Counted().capture(net)(x))
    made, run = (
        {getattr(recipe.node.target, "__name__", recipe.node.target) for recipe in told if bool(recipe.part) == known}
        for known in (True, False)
    )
    assert {"linear", "silu", "mul", "add", "contiguous"} <= made
    assert run == {"t"}


GIVES_BACK = {
    "contiguous": lambda y: y.contiguous(),
    "float": lambda y: y.float(),
    "to": lambda y: y.to(torch.float32),
    "type_as": lambda y: y.type_as(y),
    "dropout": lambda y: functional.dropout(y, 0.5, False),
    "pad": lambda y: functional.pad(y, (0, 0)),
    "reshape": lambda y: y.reshape(2, 4),
    "expand": lambda y: y.expand(2, 4),
    "broadcast": lambda y: torch.broadcast_tensors(y, y)[0],
    "atleast": lambda y: torch.atleast_2d(y),
    "cpu": lambda y: y.cpu(),
    "resolve": lambda y: y.resolve_conj(),
    "squeeze": lambda y: y.squeeze(0),
    "real": lambda y: torch.real(y),
    "positive": lambda y: +y,
    "detach": lambda y: y.detach(),
    "data": lambda y: y.data,
    "flatten": lambda y: y.flatten(1),
    "unflatten": lambda y: y.unflatten(1, (4,)),
    "add_": lambda y: y.add_(1),
    "relu_": lambda y: functional.relu(y, inplace=True),
    "copy": lambda y: y.clone().copy_(y),
    "chunk": lambda y: y.chunk(1)[0],
    "split": lambda y: torch.cat([each * 2 for each in y.split(2, 1)], 1),
    "like": lambda y: y + torch.ones_like(y) + y.new_zeros(4) + torch.arange(4),
    "item": lambda y: y * y.shape[1] + len(y),
    "set": lambda y: torch.stack([y, y]).index_fill_(0, torch.tensor([0]), 2.0)[1],
}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("name", GIVES_BACK)
def test_operators_that_may_give_their_operand_back(name, mode, done):
    class Giving(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(4))

        def forward(self, x):
            y = x * self.weight
            return GIVES_BACK[name](y) * 2 + y

    net = Net(Giving)
    with mode():
        x = torch.arange(8.0).reshape(2, 4)
        expected = net(x)
        for verify in (True, False):
            assert_same(expected, Counted(verify_equal_calls=verify).capture(net)(x))
    assert len(done) >= 3


def test_what_an_outside_tensor_has_become_matters():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.weight + MASK

    net = Net(Masked, 6)

    def call(x):
        for number, layer in enumerate(net.layers):
            if number == 4:
                MASK.unsqueeze_(0)
            x = layer(x)
        MASK.squeeze_(0)
        return x

    MASK = torch.arange(4.0)
    with torch.no_grad():
        expected = call(torch.ones(2, 4))
        for verify in (True, False):
            assert_same(expected, Counted(verify_equal_calls=verify).capture(call)(torch.ones(2, 4)))
