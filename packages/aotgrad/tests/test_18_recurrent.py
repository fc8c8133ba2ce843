"""Recurrent networks: one operator for all steps, results and gradients as in eager."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import aotgrad

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *args, **kw: nn.RNN(*args, nonlinearity="relu", **kw),
}
OPTIONS = [
    {},
    {"bias": False, "bidirectional": True},
    {"num_layers": 2, "batch_first": True, "dropout": 0.4},
    {"num_layers": 2, "bidirectional": True, "dtype": torch.float64, "batch_first": True},
]


class Compiled:
    """A module compiled by the plainest compiler, and how many operators each graph had."""

    def __init__(self, network, **options):
        self.operators = []
        self.call = aotgrad.module(network, forward=self.compile, **options)

    def compile(self, gm, inputs):
        self.operators.append(sum(node.op == "call_function" for node in gm.graph.nodes))
        return aotgrad.run_eagerly(gm, inputs)


def everything(network, call, x, states=None):
    """Results and gradients, from the same random numbers."""
    torch.manual_seed(1)
    x = x.clone().requires_grad_()
    output, last = call(x) if states is None else call(x, states)
    results = [output, *(last if isinstance(last, tuple) else [last])]
    loss = sum(
        (result * torch.linspace(-1, 1, result.numel(), dtype=x.dtype).view_as(result)).sum() for result in results
    )
    return results, torch.autograd.grad(loss, [x, *network.parameters()])


def assert_same(found, expected):
    for ours, eager in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert ours.stride() == eager.stride() or eager.numel() == 0
        torch.testing.assert_close(ours, eager, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("steps", [1, 4, 40])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients(kind, options, steps):
    network = KINDS[kind](3, 4, **options)
    x = torch.randn(steps, steps, 3, dtype=options.get("dtype"))
    assert_same(everything(network, Compiled(network).call, x), everything(network, network, x))


@pytest.mark.parametrize("kind", KINDS)
def test_without_gradients(kind):
    network = KINDS[kind](3, 4, 2, bidirectional=True)
    x = torch.randn(40, 2, 3)
    with torch.no_grad():
        torch.testing.assert_close(Compiled(network).call(x), network(x), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_no_samples_and_no_steps(kind):
    network = KINDS[kind](3, 4)
    x = torch.randn(9, 0, 3)
    assert_same(everything(network, Compiled(network).call, x), everything(network, network, x))
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        Compiled(network).call(torch.randn(0, 2, 3))


def test_states_that_are_given():
    network = nn.LSTM(3, 4, 2)
    states = torch.randn(2, 5, 4), torch.randn(2, 5, 4)
    x = torch.randn(40, 5, 3)
    assert_same(everything(network, Compiled(network).call, x, states), everything(network, network, x, states))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("steps", [3, 40])
def test_projections(steps):
    network = nn.LSTM(3, 6, 2, proj_size=4, bidirectional=True)
    x = torch.randn(steps, 2, 3)
    assert_same(everything(network, Compiled(network).call, x), everything(network, network, x))


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_do_not_grow_with_the_steps(kind):
    network = KINDS[kind](3, 4)
    compiled = Compiled(network)
    for steps in (40, 400):
        compiled.call(torch.randn(steps, 2, 3, requires_grad=True))  # only forward, as nobody asks for gradients
    few, many = compiled.operators
    assert few == many < 30


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_graph_for_lengths_and_batches_that_vary(kind, options):
    network = KINDS[kind](3, 4, **options)
    compiled, made = Compiled(network, dynamic=True), []
    for steps, batch in ((9, 4), (40, 6), (5, 40), (2, 2)):
        x = torch.randn(steps, batch, 3, dtype=options.get("dtype"))
        assert_same(everything(network, compiled.call, x), everything(network, network, x))
        made.append(len(compiled.operators))
    assert made[1:] == [2 * made[0]] * 3  # those for the first sizes, and those for all


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_gradients(kind):
    network = KINDS[kind](3, 4, dtype=torch.float64)
    found = []
    for call in (Compiled(network).call, network):
        x = torch.linspace(-1, 1, 40 * 2 * 3, dtype=torch.float64).view(40, 2, 3).requires_grad_()
        (gradient,) = torch.autograd.grad(call(x)[0].square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), [x, *network.parameters()]))
    torch.testing.assert_close(*found)


def test_gradients_of_gradients_of_a_kernel_of_onednn():
    network = nn.LSTM(3, 4)
    x = torch.randn(40, 2, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(Compiled(network).call(x)[0].square().sum(), x, create_graph=True)
    found = torch.autograd.grad(gradient.square().sum(), x)
    other = network.double()  # for which oneDNN has no kernel, and no such derivative
    x = x.detach().double().requires_grad_()
    (gradient,) = torch.autograd.grad(other(x)[0].square().sum(), x, create_graph=True)
    expected = torch.autograd.grad(gradient.square().sum(), x)[0].float()
    torch.testing.assert_close(found[0], expected, atol=1e-4, rtol=1e-4)


def test_what_the_kernel_keeps_may_be_lost():
    """A compiler may copy what forward saves; of an empty tensor no copy has the memory behind it."""

    def copying(gm, inputs):
        run = aotgrad.run_eagerly(gm, inputs)
        return lambda args: [value.clone() if isinstance(value, torch.Tensor) else value for value in run(args)]

    network, x = nn.LSTM(3, 4), torch.randn(40, 2, 3)
    compiled = aotgrad.module(network, forward=copying, backward=aotgrad.run_eagerly)
    assert_same(everything(network, compiled, x), everything(network, network, x))


def test_dropout_without_gradients_draws_in_the_order_of_memory():
    function = lambda x: torch.dropout(x.transpose(0, 1) + 1, 0.3, True)
    compiled, x = aotgrad.function(function, forward=aotgrad.run_eagerly), torch.randn(2, 7, 4)
    torch.manual_seed(1)
    expected = function(x)
    torch.manual_seed(1)
    assert torch.equal(compiled(x), expected)


@pytest.mark.parametrize(
    "draw", [lambda x: x.bernoulli(0.4), lambda x: torch.bernoulli(x.sigmoid()), lambda x: torch.bernoulli(x, 0.4)]
)
def test_numbers_that_are_drawn_anew_are_drawn_in_the_order_of_indices(draw):
    function = lambda x: draw(x.t()) + 1
    compiled, x = aotgrad.function(function, forward=aotgrad.run_eagerly), torch.rand(5, 7)
    torch.manual_seed(1)
    expected = function(x)
    torch.manual_seed(1)
    assert torch.equal(compiled(x), expected)
