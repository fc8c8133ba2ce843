"""Arguments with gaps in memory that are written to as a whole: what is asked of them afterwards is eager's answer."""

import pytest
import torch
from torch.nn import functional as nnf

import aotgrad

GAPS = {
    "columns": lambda: torch.full((4, 12), 0.5)[:, ::2],
    "rows": lambda: torch.full((8, 6), 0.5)[::2],
    "transposed": lambda: torch.full((6, 8), 0.5)[:, ::2].t(),
    "vector": lambda: torch.full((48,), 0.5)[::2],
}
WRITES = {
    "add_": lambda x: x.add_(1),
    "copy_": lambda x: x.copy_(torch.ones(x.shape)),
    "zero_": lambda x: x.zero_(),
    "setitem": lambda x: x.__setitem__(slice(None), 5),
    "data": lambda x: x.data.add_(1),
    "part": lambda x: x[1:].add_(1),
    "relu": lambda x: nnf.relu(x, inplace=True),
    "out": lambda x: torch.add(x, 1, out=x),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 3),
    "cumsum_": lambda x: x.cumsum_(0),
    "uniform_": lambda x: x.uniform_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5),
    "exponential_": lambda x: x.exponential_(),
    "random_": lambda x: x.random_(10),
    "random_ from": lambda x: x.random_(3, 10),
    "dropout": lambda x: nnf.dropout(x, 0.5, True, True),
    "alpha_dropout": lambda x: nnf.alpha_dropout(x, 0.5, True, True),
    "elu": lambda x: nnf.elu(x, 1.0, True),
    "threshold": lambda x: nnf.threshold(x, 0.6, 2.0, True),
    "a list": lambda x: torch._foreach_add_([x], 1),
    "lists": lambda x: torch._foreach_mul_([torch.ones(5)[::2], x], [torch.tensor(2.0), torch.tensor(3.0)]),
    "a list of roots": lambda x: torch._foreach_sqrt_([x, torch.ones(3)]),
    "twice": lambda x: x.mul_(2).t_().sub_(1),
}
READS = (
    lambda x: x.contiguous(),
    lambda x: x[1:].contiguous(),
    lambda x: x.t().contiguous(),
    lambda x: x.reshape(-1),
    lambda x: x.ravel(),
    lambda x: x.to(memory_format=torch.contiguous_format),
    lambda x: x.clone(),
)


def run(program, make):
    torch.manual_seed(0)
    x = make()
    return x, *program(x), torch.rand(1)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("write", WRITES)
def test_copies_are_copies_after_a_write(write, gaps, dynamic):
    def program(x):
        WRITES[write](x)
        read = [each(x) for each in READS]
        asked = torch.tensor([*x.stride(), x.is_contiguous()])
        read[0].mul_(10)  # a copy of its own
        return asked, *read

    ours = aotgrad.function(program, forward=aotgrad.run_eagerly, dynamic=dynamic)
    expected, found = run(program, GAPS[gaps]), run(ours, GAPS[gaps])
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other, one)
        assert other.stride() == one.stride()
    assert [each.data_ptr() == found[0].data_ptr() for each in found] == [
        each.data_ptr() == expected[0].data_ptr() for each in expected
    ]


def test_nothing_is_laid_out_that_nobody_asks_for():
    operators = []

    def watched(gm, inputs):
        operators.extend(str(node.target) for node in gm.graph.nodes if node.op == "call_function")
        return aotgrad.run_eagerly(gm, inputs)

    aotgrad.function(lambda x: x.add_(1), forward=watched)(GAPS["columns"]())
    assert operators == ["aten.add.Tensor"]


def test_gradients_come_through_what_was_written():
    def program(w, x):
        x.copy_(w)
        return x.contiguous() * x

    found = []
    for function in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        w = torch.arange(24.0).view(4, 6).requires_grad_()
        x = GAPS["columns"]()
        (function(w, x) + x).sum().backward()
        found.append(w.grad)
    assert torch.equal(*found)


DRAWS = {
    "normal_": lambda x: x.normal_(),
    "init": lambda x: torch.nn.init.normal_(x),
    "after a write": lambda x: x.zero_().normal_(),
    "out": lambda x: torch.randn(x.shape, out=x),
    "made within": lambda x: torch.zeros(4, 12)[:, ::2].normal_(),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_normal_numbers_are_not_drawn_into_gaps(draw):
    """Torch's kernel draws others there, which graphs do not have."""
    ours = aotgrad.function(DRAWS[draw], forward=aotgrad.run_eagerly)
    with pytest.raises(aotgrad.Unsupported, match="gaps in memory"):
        ours(GAPS["columns"]())


def test_normal_numbers_without_gaps_are_drawn():
    program = lambda x: (x.normal_(),)
    ours = aotgrad.function(program, forward=aotgrad.run_eagerly)
    few = lambda: torch.zeros(3, 10)[:, ::2]
    for make in (few, lambda: torch.zeros(6, 4).t(), lambda: torch.zeros(4, 6), lambda: torch.zeros(40)[1:37]):
        assert all(map(torch.equal, run(program, make), run(ours, make)))
