"""Graphs that write to tensors they hold do so in every call, and not while they are compiled."""

import copy

import pytest
import torch
from torch import nn
from torch.fx import GraphModule, symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx

import inductor


class Calls(nn.Module):
    """A program with a counter, and something else that it holds."""

    def __init__(self, step):
        super().__init__()
        self.step, self.weight = step, nn.Parameter(torch.randn(3))
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        return self.step(self, x) * self.weight


def with_batch_norm(layer):
    return nn.Sequential(nn.Linear(3, 3), layer, nn.ReLU(inplace=True))


STEPS = {
    "added to": lambda self, x: (self.count.add_(1), x + self.count)[1],
    "read before and after": lambda self, x: self.count.clone() + (self.count.mul_(2).add_(x[0]), self.count)[1] - x,
    "written by index": lambda self, x: (self.count.__setitem__(1, x.sum()), x * self.count)[1],
    "through a view": lambda self, x: (self.count[1:].add_(x[0, 1:]), x + self.count)[1],
    "of it and not read": lambda self, x: (self.count.copy_(x[0]), x)[1],
    "returned": lambda self, x: self.count.add_(x[1]),
    "written to a parameter": lambda self, x: (self.weight.add_(1), x)[1],
}
LAYERS = {
    "batch norm": lambda: with_batch_norm(nn.BatchNorm1d(3)),
    "no affine": lambda: with_batch_norm(nn.BatchNorm1d(3, affine=False)),
    "evaluated": lambda: with_batch_norm(nn.BatchNorm1d(3)).eval(),
}


def graph_with_a_method():
    """A graph whose own nodes write to what it holds."""
    graph, root = torch.fx.Graph(), nn.Module()
    root.register_buffer("count", torch.zeros(3))
    x, count = graph.placeholder("x"), graph.get_attr("count")
    added = graph.call_method("add_", (count, 1))
    graph.output((graph.call_function(torch.add, (x, added)), count))
    return GraphModule(root, graph)


def inputs(*size):
    return [torch.randn(size) for _ in range(5)]


def compared(eager, graph, given):
    """Five calls in eager and compiled, with all that the modules hold after each."""
    before = copy.deepcopy(dict(graph.state_dict()))
    compiled = inductor.compile(graph, [given[0]], options=inductor.Options(fallback=False))
    torch.testing.assert_close(dict(graph.state_dict()), before, rtol=0, atol=0)
    with torch.no_grad():
        for x in given:
            expected, found = eager(x), compiled(x)
            torch.testing.assert_close(found, expected if isinstance(expected, tuple) else (expected,))
            torch.testing.assert_close(dict(graph.state_dict()), dict(eager.state_dict()))


@pytest.mark.parametrize("name", STEPS)
def test_writes_of_a_graph(name):
    module = Calls(STEPS[name])
    held = copy.deepcopy(dict(module.state_dict()))
    with torch.no_grad():
        graph = make_fx(module)(torch.randn(2, 3))
        module.load_state_dict(held)  # the tracer has run it once
        eager = copy.deepcopy(module)
        compiled = inductor.compile(graph, [torch.randn(2, 3)], options=inductor.Options(fallback=False))
        torch.testing.assert_close(dict(module.state_dict()), held, rtol=0, atol=0)
        for x in inputs(2, 3):
            torch.testing.assert_close(compiled(x)[0], eager(x))
            torch.testing.assert_close(dict(module.state_dict()), dict(eager.state_dict()))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_count(name):
    module = LAYERS[name]()
    compared(module, symbolic_trace(copy.deepcopy(module)), inputs(2, 3))


def test_a_method():
    graph = graph_with_a_method()
    compared(copy.deepcopy(graph), graph, inputs(3))


def test_an_input_in_the_same_memory():
    graph = graph_with_a_method()
    eager = copy.deepcopy(graph)
    compiled = inductor.compile(graph, [torch.zeros(3)])
    for _ in range(3):
        torch.testing.assert_close(compiled(graph.count), eager(eager.count))


def test_a_wrong_number_of_inputs_is_the_callers():
    compiled = inductor.compile(graph_with_a_method(), [torch.zeros(3)])
    with pytest.raises(inductor.BadCall, match="takes 1 input and got 2"):
        compiled(torch.zeros(3), torch.zeros(3))
    with pytest.raises(inductor.BadCall, match="takes a list of 1 input"):
        compiled.call([torch.zeros(3), torch.zeros(3)])
