"""What is written in place lies in memory as before, which results and random numbers show."""

import pytest
import torch

import aotgrad

VALUES = torch.rand(2, 3) + 0.1
FIRST, PLACES, MASK = torch.tensor([0]), torch.zeros(2, 3, dtype=torch.long), VALUES > 0.5
WRITES = {
    "add_": lambda x: x.add_(VALUES),
    "zero_": lambda x: x.zero_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5),
    "scatter_": lambda x: x.scatter_(0, PLACES, VALUES),
    "scatter_add_": lambda x: x.scatter_add_(0, PLACES, VALUES),
    "scatter_reduce_": lambda x: x.scatter_reduce_(0, PLACES, VALUES, "sum"),
    "index_add_": lambda x: x.index_add_(0, FIRST, VALUES[:1]),
    "index_copy_": lambda x: x.index_copy_(0, FIRST, VALUES[:1]),
    "masked_scatter_": lambda x: x.masked_scatter_(MASK, VALUES),
    "tril_": lambda x: x.tril_(),
    "cumsum_": lambda x: x.cumsum_(0),
    "renorm_": lambda x: x.renorm_(2, 0, 1.0),
    "addmm_": lambda x: x.addmm_(torch.eye(2), VALUES),
    "setitem": lambda x: x.__setitem__(MASK, 1.0),
}
INPUTS = {
    "transposed": lambda: torch.ones(3, 2).t(),
    "with holes": lambda: torch.ones(6, 2)[::2].t(),
    "contiguous": lambda: torch.ones(2, 3),
    "seen transposed": lambda: torch.ones(3, 2),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("write", WRITES)
def test_it_lies_as_before(write, kind, dynamic):
    def program(x):
        WRITES[write](x.t() if kind == "seen transposed" else x)
        return x + 1, torch.rand_like(x), x.detach().uniform_()

    def run(function):
        torch.manual_seed(0)
        x = INPUTS[kind]()
        return x, *function(x)

    ours = aotgrad.function(program, forward=aotgrad.run_eagerly, dynamic=dynamic)
    for expected, found in zip(run(program), run(ours), strict=True):
        assert expected.stride() == found.stride()
        torch.testing.assert_close(found, expected)


def test_a_shape_may_change_in_place():
    """`t_` of a square: a view is not what takes the place of what it views."""
    x, y = torch.rand(2, 2).t(), torch.rand(2, 2).t()
    program = lambda x: x.t_() + 1
    expected, found = program(x), aotgrad.function(program, forward=aotgrad.run_eagerly)(y)
    assert (expected.stride(), x.stride()) == (found.stride(), y.stride())


def test_gradients_come_by_what_was_laid_out():
    def program(w):
        x = w.t() * 1
        return x.tril_().t()

    w, v = torch.rand(3, 2, requires_grad=True), torch.rand(3, 2, requires_grad=True)
    program(w).square().sum().backward()
    aotgrad.function(program, forward=aotgrad.run_eagerly)(v).square().sum().backward()
    assert torch.equal(w.grad != 0, v.grad != 0)
