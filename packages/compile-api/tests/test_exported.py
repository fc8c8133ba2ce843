"""What ``export`` gives is called as the function was, and returns what it returns."""

from collections import namedtuple

import pytest
import torch
from torch.utils import _pytree as pytree

import compile_api

Pair = namedtuple("Pair", "first second")
X, Y = torch.randn(2, 3), torch.randn(2, 3)
OUTSIDE = torch.ones(3)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        self.count.add_(1)
        return {"y": x * self.weight + self.count, "weight": self.weight, "count": self.count}


class Box:
    def __init__(self, value):
        self.value = value


def takes_everything(a, d, b=2, *rest, k=2.5, **more):
    return {"o": (a + d["x"] * b * k + OUTSIDE + rest[0], more["z"]), "n": Pair(a.shape[0], [a * 2, a, None])}


FUNCTIONS = {
    "a sequence": (lambda: torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).eval(), (X,), {}),
    "a method of a module": (lambda: torch.nn.Linear(3, 2).forward, (X,), {}),
    "several outputs": (lambda: torch.nn.LSTM(3, 2), (X,), {}),
    "a dictionary": (lambda: lambda x: {"a": x + 1}, (X,), {}),
    "what was given": (lambda: lambda x: (x, x + 1), (X,), {}),
    "everything": (lambda: takes_everything, (X, {"x": Y}, 3, X * 3), {"z": X * 5}),
    "an object": (lambda: lambda o, x: o.value + x, (Box(X), X), {}),
    "numbers": (lambda: lambda x, n: x * n, (X, 2), {}),
    "nothing": (lambda: lambda: torch.ones(3) + 1, (), {}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_called_alike_and_returns_alike(name):
    make, args, kwargs = FUNCTIONS[name]
    function = make()
    exported = compile_api.export(function)(*args, **kwargs)
    graph, guards = exported
    assert (graph, guards) == (exported.graph_module, exported.guards)
    torch.testing.assert_close(graph(*args, **kwargs), function(*args, **kwargs))


def test_a_module_stays_the_holder_of_its_state():
    module = Tied()
    graph, _ = compile_api.export(module)(X)
    before = module.count.clone()
    result = graph(X)
    assert result["weight"] is module.weight
    assert result["count"] is module.count
    assert torch.equal(module.count, before + 1)
    assert graph.state_dict().keys() == module.state_dict().keys()
    graph(X)["y"].sum().backward()
    assert module.weight.grad is not None


def test_other_values_and_structures_are_an_error():
    graph, _ = compile_api.export(takes_everything)(X, {"x": Y}, 3, X * 3, z=Y)
    for args, kwargs in (
        ((X, {"x": Y}, 4, X * 3), {"z": Y}),
        ((X, {"x": Y, "w": X}, 3, X * 3), {"z": Y}),
        ((X, {"x": Y}, 3, X * 3, X), {"z": Y}),
        ((X, {"x": Y}, 3, X * 3), {"z": Y.clone()}),  # the same tensor twice, when it was exported
    ):
        with pytest.raises(compile_api.CompileApiError, match="the graph was exported for"):
            graph(*args, **kwargs)
    other, _ = compile_api.export(lambda o, x: o.value + x)(Box(X), X)
    with pytest.raises(compile_api.CompileApiError, match="export it anew"):
        other(Box(X), X)


def test_results_that_no_graph_can_give_are_refused():
    with pytest.raises(compile_api.CompileApiError, match="returns a Box"):
        compile_api.export(lambda x: Box(x + 1))(X)
    with pytest.raises(compile_api.CompileApiError, match="that its graph does not compute"):
        compile_api.export(lambda x: (x + 1, OUTSIDE))(X)


class Copied:
    """An object of which pytree makes another tensor each time."""

    def __init__(self, value):
        self.value = value


def test_a_tensor_that_pytree_makes_is_none_that_is_gone():
    pytree.register_pytree_node(Copied, lambda c: ([c.value * 1], None), lambda values, _: Copied(*values))
    with pytest.raises(compile_api.CompileApiError, match="that its graph does not compute"):
        compile_api.export(lambda c, x: [Copied(x), x + 1])(Copied(X), Y)


def test_it_is_compiled_like_any_graph_module():
    graph, _ = compile_api.export(takes_everything)(X, {"x": Y}, 3, X * 3, z=X)
    compiled = compile_api.compile(graph)
    torch.testing.assert_close(compiled(X, {"x": Y}, 3, Y, z=X), takes_everything(X, {"x": Y}, 3, Y, z=X))
