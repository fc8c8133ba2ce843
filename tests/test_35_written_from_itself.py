"""What is written to a tensor may be computed from the same tensor, elsewhere: `x.copy_(x.flip(0))`."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import compile_api
from programs.written_from_itself import WRITES, after_one_another, compared, every


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_every_write_of_what_is_read_elsewhere(dtype):
    compiled = compile_api.compile(every, fullgraph=True)
    compared(every, compiled, dtype)
    assert not compile_api.report(compiled).refused


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_writes_after_one_another(backend):
    compared(after_one_another, compile_api.compile(after_one_another, backend=backend, fullgraph=True), torch.float32)


@pytest.mark.parametrize("name", ["flipped", "symmetric", "a row on", "stencil", "halves exchanged"])
def test_a_write_as_the_only_one_of_its_graph(name):
    x = torch.randn(12, 12)
    expected, found = x.clone(), x.clone()
    WRITES[name](expected)
    compile_api.compile(WRITES[name], fullgraph=True)(found)
    torch.testing.assert_close(found, expected)


def test_two_tensors_are_exchanged():
    def exchange(x, y):
        old = x.clone()
        x.copy_(y.flip(0))
        y.copy_(old.roll(1))

    given = torch.randn(40), torch.randn(40)
    expected, found = ([tensor.clone() for tensor in given] for _ in range(2))
    exchange(*expected)
    compile_api.compile(exchange, fullgraph=True)(*found)
    assert torch.equal(torch.stack(found), torch.stack(expected))


class History(torch.nn.Module):
    """A buffer of what came last, as models keep it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(37))
        self.weight = torch.nn.Parameter(torch.ones(37))

    def forward(self, x):
        self.last.copy_(self.last.roll(1))
        self.last[0] = x.detach().sum()
        return (self.last.clone() * self.weight * x).sum()


@pytest.mark.parametrize("training", [False, True])
def test_a_history_in_a_buffer(training):
    eager, ours = History(), History()
    compiled = compile_api.compile(ours, fullgraph=True)
    for step in range(5):
        with torch.set_grad_enabled(training):
            losses = [module(torch.full((37,), float(step))) for module in (eager, compiled)]
        torch.testing.assert_close(losses[1], losses[0])
        torch.testing.assert_close(ours.last, eager.last)


READ_THROUGH_VIEWS = {
    "joined": lambda y: torch.cat([*y.split(2, 1)[:3], *y.split(2, 1)[:2]], 1),
    "joined in another order": lambda y: torch.cat(y.chunk(5, 0)[::-1]),
    "joined twice": lambda y: torch.cat(y.hsplit(2) * 3),
    "summed": lambda y: torch.stack([part.sum() for part in y.split(2, 1)]),
    "of the transposed": lambda y: torch.cat(y.T.split(2, 1), 1),
}


@pytest.mark.parametrize("name", READ_THROUGH_VIEWS)
def test_what_is_read_through_views_before_a_write_is_what_was_there(name):
    def program(y):
        result = READ_THROUGH_VIEWS[name](y)
        y.mul_(3).add_(1)
        return result

    compiled = compile_api.compile(program, fullgraph=True)
    for size in (20, 40, 60):
        given = torch.arange(20.0 * size).view(20, size)
        expected, found = given.clone(), given.clone()
        torch.testing.assert_close(compiled(found), program(expected))
        torch.testing.assert_close(found, expected)
