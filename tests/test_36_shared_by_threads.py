"""Kernels whose iterations are shared by threads do each of them once, whatever vectors leave over at the end."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import compile_api
from inductor import costs
from programs.written_from_itself import WRITES

SIZES = (35, 37)
PROGRAMS = {
    "added in place": lambda x: x.add_(1),
    "a chain in place": lambda x: x.mul_(2).add_(1).relu_(),
    "flat": lambda x: x.view(-1).sub_(0.5),
    "running sums": lambda x: x.sub_(x.cumsum(0)),
    "running sums, negative": lambda x: -x.cumsum(1),
    "rows less their mean": lambda x: x.sub_(x.mean(1, keepdim=True)),
    "columns less their largest": lambda x: x.sub_(x.amax(0)),
    "softmax": lambda x: x.copy_(x.softmax(-1)),
    "added at positions": lambda x: -x.index_add(0, torch.arange(len(x) - 1, -1, -1), x),
    "put at positions": lambda x: -x.index_put((torch.arange(len(x)) // 2,), x, accumulate=True),
    "largest at positions": lambda x: x.scatter_reduce(0, torch.zeros(x.shape, dtype=torch.int64), x, "amax").neg(),
    "products at positions": lambda x: x.scatter_reduce(0, (x > 0).long(), x * 0.01 + 1, "prod"),
    "a product": lambda x: -(x @ x.mT) - 1,
    "normalised": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    "transposed": lambda x: x.t().contiguous().mul_(2).add_(x[0, 0]),
    "all summed": lambda x: x.sum() + x.square().mean(),
    **{f"written: {name}": WRITES[name] for name in ("flipped", "symmetric", "stencil", "halves exchanged")},
}


@pytest.fixture
def all_shared(monkeypatch):
    """Everything is worth sharing, by three threads."""
    monkeypatch.setattr(costs, "CPU", replace(costs.CPU, parallel_work=1))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def every(tensors):
    return [program(x) for program, x in zip(PROGRAMS.values(), tensors, strict=True)]


@pytest.mark.usefixtures("all_shared")
@pytest.mark.parametrize("dynamic", [False, True], ids=["sizes as they are", "sizes that vary"])
def test_each_iteration_is_done_once(dynamic):
    compiled = compile_api.compile(every, dynamic=dynamic, fullgraph=True)
    for size in SIZES:
        given = [torch.randn(size, size) for _ in PROGRAMS]
        expected, found = ([tensor.clone() for tensor in given] for _ in range(2))
        results = every(expected), compiled(found)
        for name, *pairs in zip(PROGRAMS, expected, found, *results, strict=True):
            torch.testing.assert_close(pairs[1], pairs[0], msg=lambda text, name=name: f"{name}: {text}")
            torch.testing.assert_close(pairs[3], pairs[2], msg=lambda text, name=name: f"{name}: {text}")
    assert not compile_api.report(compiled).refused


def test_rows_that_are_short_and_long_where_their_length_varies():
    """Few elements are one piece, many are several: one kernel has both."""

    def rows(x):
        return x.softmax(-1), x.sum(-1), x.argmax(-1), x.std(-1), x.amin(), x.double().sum()

    compiled = compile_api.compile(rows, dynamic=True, fullgraph=True)
    for length in (3, 64, 4095, 4096, 9001, 40003):
        x = torch.rand(2, length)
        torch.testing.assert_close(compiled(x), rows(x))


@pytest.mark.usefixtures("all_shared")
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_an_optimizer_steps_each_weight_once(optimizer):
    weights = [torch.nn.Parameter(torch.ones(19, 37)) for _ in range(2)]
    for weight, compile in zip(weights, (lambda step: step, compile_api.compile(fullgraph=True)), strict=True):
        made = optimizer([weight], lr=0.1, **({"momentum": 0.5} if optimizer is torch.optim.SGD else {}))
        step = compile(lambda made=made: made.step())
        for _ in range(3):
            weight.grad = torch.linspace(-1, 1, 19 * 37).view(19, 37)
            step()
    torch.testing.assert_close(weights[1], weights[0])
