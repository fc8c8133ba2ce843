"""The size of one graph is bounded: a loop of very many operators is not unrolled to its end."""

import pytest
import torch

import capture


def plain_loop(x):
    for _ in range(300):
        x = x + 1
    return x


def counted_loop(x):
    i = 0
    while i < 90:
        x, i = x + i, i + 1
    return x


def block(x):
    for i in range(15):
        x = x + i
    return x


def loop_of_calls(x):
    for _ in range(20):
        x = block(x)
    return x


def graphs_of(function, x, **options):
    sizes = []

    def backend(module, examples):
        sizes.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return module

    captured = capture.optimize(backend, options=capture.Options(strict=True, **options))(function)
    for _ in range(2):
        assert torch.equal(captured(x), function(x))
    return sizes


@pytest.mark.parametrize("function", [plain_loop, counted_loop, loop_of_calls])
def test_a_graph_ends_when_it_is_large(x, function):
    sizes = graphs_of(function, x, largest_graph=20)
    assert len(sizes) > 1
    assert max(sizes) <= 20


@pytest.mark.parametrize("options", [{"nopython": True, "largest_graph": 20}, {"largest_graph": None}, {}])
def test_no_bound_is_met(x, options):
    assert graphs_of(counted_loop, x, **options) == [90]
