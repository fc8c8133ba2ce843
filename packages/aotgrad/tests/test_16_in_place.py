"""Changed inputs that the graph for inference writes itself."""

import pytest
import torch

import aotgrad

aten = torch.ops.aten


def compiled(function, *inputs):
    graphs = []

    def keep(gm, example_inputs):
        graphs.append(gm)
        return aotgrad.run_eagerly(gm, example_inputs)

    gm = torch.fx.symbolic_trace(function)
    return aotgrad.compile(gm, list(inputs), forward=keep, in_place=True), graphs


def copies(graphs):
    return [str(n.args[0]) for n in graphs[0].graph.nodes if n.target is aten.copy_.default]


def test_a_changed_input_is_written_by_the_graph():
    x, y = torch.ones(3), torch.ones(3)
    call, graphs = compiled(lambda x, y: (x.add_(y), x * 2)[1], x, y)
    version = x._version
    (result,) = call(x, y)
    assert len(copies(graphs)) == 1
    assert torch.equal(x, torch.full((3,), 2.0))
    assert torch.equal(result, torch.full((3,), 4.0))
    assert x._version > version, "autograd has to see the change"


def test_what_shares_memory_with_an_input_is_copied_outside():
    a, b = torch.zeros(2), torch.ones(2)

    def swap(a, b):
        old = a + 0
        a.copy_(b)
        b.copy_(old)
        return a + b

    call, _ = compiled(swap, a, b)
    call(a, b)
    assert torch.equal(a, torch.ones(2))
    assert torch.equal(b, torch.zeros(2))


def test_a_parameter_is_written_without_gradients():
    weight = torch.nn.Parameter(torch.ones(3))
    with torch.no_grad():
        call, graphs = compiled(lambda w: w.mul_(3.0).sum(), weight)
        call(weight)
    assert copies(graphs)
    assert torch.equal(weight.detach(), torch.full((3,), 3.0))


def test_what_is_written_by_out_keeps_its_layout():
    def program(x, y):
        whole = x * 2
        torch.square(y, out=whole)
        return whole, whole + 0, torch.bernoulli(y, out=torch.empty(3, 2))

    x, y = torch.ones(3, 2), torch.ones(2, 3).t()
    eager, ours = program(x, y), aotgrad.function(program, forward=aotgrad.run_eagerly)(x, y)
    assert [value.stride() for value in ours] == [value.stride() for value in eager]
    torch.testing.assert_close(ours, eager)


KEEPS_EVERYTHING = {
    "resize_": lambda x: x.resize_(2, 3),
    "resize_ to a size": lambda x: x.resize_(x.shape),
    "resize_as_": lambda x: x.resize_as_(torch.ones(2, 3)),
    "squeeze_": lambda x: x.squeeze_(),
    "transpose_": lambda x: x.transpose_(0, 0),
    "copy_": lambda x: x.copy_(x),
    "mul_": lambda x: x.mul_(1),
    "a part of nothing": lambda x: x[:0].zero_(),
    "an index of nothing": lambda x: x.index_put_((torch.tensor([], dtype=torch.long),), torch.ones(())),
}


@pytest.mark.parametrize("name", KEEPS_EVERYTHING)
def test_what_changes_nothing_counts_as_in_eager(name):
    """`resize_` to the size that a tensor has counted as a write."""
    eagers, ours = torch.ones(2, 3), torch.ones(2, 3)
    KEEPS_EVERYTHING[name](eagers)
    aotgrad.function(KEEPS_EVERYTHING[name], forward=aotgrad.run_eagerly)(ours)
    assert ours._version == eagers._version


ROWS, PLACES, VALUES = torch.tensor([2, 0, 1]), torch.tensor([[0, 2], [1, 0], [2, 1]]), torch.arange(6.0).reshape(3, 2)
WRITTEN_ACROSS = {
    "zero_": (),
    "fill_": (2.0,),
    "mul_": (VALUES,),
    "masked_fill_": (VALUES > 2, 1.0),
    "masked_scatter_": (VALUES > 2, VALUES),
    "index_fill_": (0, ROWS, 1.0),
    "index_add_": (0, ROWS, VALUES),
    "index_copy_": (0, ROWS, VALUES),
    "index_put_": ((ROWS,), VALUES),
    "index_reduce_": (0, ROWS, VALUES, "amax"),
    "scatter_": (0, PLACES, 1.0),
    "scatter_add_": (0, PLACES, VALUES),
    "scatter_reduce_": (0, PLACES, VALUES, "sum"),
    "put_": (ROWS, VALUES[:, 0]),
    "tril_": (),
    "triu_": (),
    "cumsum_": (0,),
    "cumprod_": (0,),
    "addmm_": (torch.ones(3, 3), VALUES),
    "renorm_": (2, 0, 1.0),
    "nan_to_num_": (),
    "lerp_": (VALUES, 0.5),
    "bernoulli_": (0.5,),
    "normal_": (),
    "exponential_": (),
}


@pytest.mark.parametrize("name", WRITTEN_ACROSS)
def test_what_is_written_through_a_view_across_keeps_its_layout(name, same_as_eager):
    def program(x):
        y = x * 1
        getattr(y.mT, name)(*WRITTEN_ACROSS[name])
        return y, y.bernoulli(0.5)  # which draws in the order of the memory

    same_as_eager(program, torch.full((2, 3), 0.5))
