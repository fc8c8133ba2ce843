"""An operator that refuses its data raises as in eager, at its place, whatever becomes of its result."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as nnf

import compile_api

OUTSIDE = torch.tensor([5])

RAISERS = {
    "gather": lambda x, i: x.gather(0, i),
    "of integers": lambda x, i: x.long().gather(0, i),
    "index": lambda x, i: x[i],
    "index twice": lambda x, i: x.diag()[i, i],
    "index of an index": lambda x, i: x[x.gather(0, i).long()],
    "index_select": lambda x, i: x.index_select(0, i),
    "take": lambda x, i: x.take(i),
    "embedding": lambda x, i: nnf.embedding(i, x[:, None]),
    "embedding_bag": lambda x, i: nnf.embedding_bag(i[None], x[:, None]),
    "scatter": lambda x, i: x.scatter(0, i, 2.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, x, "amax"),
    "index_put": lambda x, i: x.index_put((i,), x[:1], accumulate=True),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:1]),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "put": lambda x, i: x.put(i, x[:1]),
    "nll_loss": lambda x, i: nnf.nll_loss(x[None], i, reduction="none"),
    "cross_entropy": lambda x, i: nnf.cross_entropy(x[None], i),
    "multi_margin_loss": lambda x, i: nnf.multi_margin_loss(x[None], i),
    "binary_cross_entropy": lambda x, i: nnf.binary_cross_entropy(x, x),
    "floor_divide": lambda x, i: i // (x.long() - 1),
    "remainder": lambda x, i: i % (x.long() - 1),
    "cholesky": lambda x, i: torch.linalg.cholesky(-x.diag()),
    "solve": lambda x, i: torch.linalg.solve(x.diag() * 0, x),
    "multinomial": lambda x, i: (-x).multinomial(1),
    "bernoulli": lambda x, i: x.bernoulli(),
}


def stored(found, x):
    found[...] = 1
    return x + 1


WAYS = {
    "zeroed": lambda found, x: (found.zero_(), x + 1)[1],
    "filled": lambda found, x: found.fill_(3),
    "copied over": lambda found, x: found.copy_(torch.ones_like(found)),
    "stored over": stored,
    "unread": lambda found, x: x + 1,
    "read by what is unread": lambda found, x: (found.sum(), x + 1)[1],
    "told its size": lambda found, x: x * found.numel(),
    "like it": lambda found, x: torch.zeros_like(found),
    "new beside it": lambda found, x: found.new_zeros(2) + x.sum(),
    "times zero": lambda found, x: found * 0,
    "never chosen": lambda found, x: torch.where(torch.ones_like(found) > 0, torch.ones_like(found), found),
    "not chosen by data": lambda found, x: torch.where(x.sum() > 0, torch.ones_like(found), found),
    "masked": lambda found, x: found.masked_fill(torch.ones_like(found, dtype=torch.bool), 1),
    "none of it": lambda found, x: found.flatten()[:0],
    "out": lambda found, x: torch.add(torch.ones_like(found), 1, out=found),
}  # fmt: skip

CASES = [
    (raiser, list(WAYS)[(number + step) % len(WAYS)])
    for number, raiser in enumerate(RAISERS)
    for step in (0, 7)
]  # fmt: skip


def outcome(function):
    """What was raised, and which effects there were before."""
    torch.manual_seed(0)
    state = SimpleNamespace(steps=0, tensor=torch.zeros(1))
    with pytest.raises(Exception, match=r".") as raised:
        function(torch.arange(1.0, 4.0), OUTSIDE, state)
    return type(raised.value), str(raised.value), state.steps, state.tensor.item()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(("raiser", "way"), CASES)
def test_the_error_is_eagers(raiser, way, backend):
    def function(x, i, state):
        state.steps += 1
        state.tensor.add_(1)
        found = RAISERS[raiser](x, i)
        state.steps += 1
        state.tensor.add_(1)
        return WAYS[way](found, x)

    assert outcome(compile_api.compile(function, backend=backend, fullgraph=True)) == outcome(function)


def test_autograds_graph_runs_it_too():
    """In forward, though the result were needed in backward alone."""

    @compile_api.compile
    def function(x, i):
        x.gather(0, i).zero_()
        return (x * x).sum()

    with pytest.raises(RuntimeError, match="index 5 is out of bounds"):
        function(torch.ones(3, requires_grad=True), OUTSIDE)
    assert function(torch.ones(3, requires_grad=True), torch.tensor([1])) == 3
    assert len(compile_api.report(function).captured) == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("raiser", ["embedding", "index_put", "put"])
def test_positions_that_are_no_integers_are_refused(raiser, backend):
    """Torch's fakes take them, of any version or of older ones."""

    def program(x, i):
        RAISERS[raiser](x, i)
        return x + 1

    refusals = []
    for run in (program, compile_api.compile(program, backend=backend)):
        with pytest.raises((RuntimeError, IndexError), match=r".") as raised:
            run(torch.arange(1.0, 4.0), torch.tensor([1.0]))
        refusals.append((raised.type, str(raised.value)))
    assert refusals[0] == refusals[1]


NOT_FITTING = {
    "conv1d": (lambda x: nnf.conv1d(x, torch.ones(5, 5, 2)), (6, 7, 6)),
    "conv1d by groups": (lambda x: nnf.conv1d(x, torch.ones(5, 1, 2), groups=5), (6, 7, 6)),
    "conv_transpose1d": (lambda x: nnf.conv_transpose1d(x, torch.ones(5, 5, 2)), (6, 7, 6)),
    "matmul": (lambda x: x @ torch.ones(6, 2), (6, 5, 7)),
}


@pytest.mark.parametrize("name", NOT_FITTING)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_operands_that_do_not_fit_are_refused_where_sizes_vary(name, backend):
    operator, misfit = NOT_FITTING[name]
    program = lambda x: (operator(x), x * 2)[1]
    compiled = compile_api.compile(program, backend=backend)
    for size in ((4, 5, 6), (6, 5, 6)):
        assert torch.equal(compiled(torch.ones(size)), torch.full(size, 2.0))
    with pytest.raises(RuntimeError, match=r".") as refused:
        program(torch.ones(misfit))
    with pytest.raises(RuntimeError, match=r".") as ours:
        compiled(torch.ones(misfit))
    assert str(ours.value) == str(refused.value)
