"""Tidying the joint graph never changes what a caller can see."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import aotgrad


def calls(graph, op):
    return sum(node.target is op for node in graph.nodes)


def test_equal_work_is_shared(graphs_of):
    (graph,) = graphs_of(lambda x: x.sin() * x.sin() + x.sum(0) / x.sum(0), torch.randn(3, 3))
    assert calls(graph, torch.ops.aten.sin.default) == 1
    assert calls(graph, torch.ops.aten.sum.dim_IntList) == 1


def test_a_weight_is_cast_once_under_autocast(graphs_of):
    def program(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ w) @ w

    forward, _ = graphs_of(program, torch.randn(4, 4), torch.randn(4, 4, requires_grad=True))
    assert calls(forward, torch.ops.aten._to_copy.default) == 2


def test_returned_values_stay_apart(same_as_eager):
    same_as_eager(lambda x: (x.clone(), x.clone(), x + 1, x + 1), torch.randn(3))
    same_as_eager(lambda x: (x.sin(), x.sin()), torch.randn(3, requires_grad=True))
    same_as_eager(lambda x: (x.sort()[1], x.sort()[1], x.argsort()), torch.randn(3))


def test_what_was_a_view_of_equal_work_is_one_of_what_stays(same_as_eager):
    """Backends ask for the memory of values: sums are written over what nobody else reads."""

    def program(x):
        y, z = x.exp(), x.exp()
        sums = y.detach() + x
        return sums, z.clone(), z.t().detach() + sums

    same_as_eager(program, torch.randn(3, 3))


def test_equal_work_on_lists_is_shared(graphs_of):
    def program(x):
        (y,), (z,) = torch._foreach_mul([x], 2.0), torch._foreach_mul([x], 2.0)
        return y.t() + z.t()

    (graph,) = graphs_of(program, torch.randn(3, 3))
    assert calls(graph, torch.ops.aten._foreach_mul.Scalar) == 1


def test_random_draws_stay_apart(same_as_eager):
    same_as_eager(lambda x: F.dropout(x) + F.dropout(x), torch.ones(50, requires_grad=True))


def test_numbers_of_another_type_or_sign_stay_apart(same_as_eager):
    same_as_eager(lambda x: (x * 0.0, x * -0.0, (x * 1) / (x * 1.0)), torch.arange(1, 4))


def test_a_checkpoint_still_computes_again(graphs_of):
    program = lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)
    _, backward = graphs_of(program, torch.randn(3, requires_grad=True))
    assert calls(backward, torch.ops.aten.sin.default) == 1


def test_dead_code_goes(graphs_of):
    (graph,) = graphs_of(lambda x: (x.exp(), x + 1)[1], torch.ones(2))
    assert calls(graph, torch.ops.aten.exp.default) == 0


def test_a_loss_of_which_only_the_gradient_is_wanted_is_not_computed(graphs_of):
    def program(x, w):
        return torch.func.grad(lambda t: (t * w).sum())(x)

    (graph,) = graphs_of(program, torch.randn(3), torch.randn(3))
    assert calls(graph, torch.ops.aten.sum.default) == 0


FILLED = [
    torch.zeros_like, torch.ones_like, lambda x: torch.full_like(x, 2, dtype=torch.bool), lambda x: x.new_ones(2),
    lambda x: x.new_zeros(0, 2), lambda x: x.new_full((2,), 0.5), lambda x: torch.ones_like(x.t()),
    lambda x: torch.zeros_like(x[:, ::2]), lambda x: torch.full_like(x, 3, dtype=torch.complex64),
]  # fmt: skip


@pytest.mark.parametrize("filled", FILLED)
def test_what_is_made_as_a_tensor_is_made_without_it(same_as_eager, graphs_of, filled):
    def program(x):
        like = filled(x.exp())
        return like, like * 1, like.clone(), x + 1

    x = torch.randn(2, 3)
    same_as_eager(program, x)
    same_as_eager(lambda x: filled(x.exp()) * 1, x.requires_grad_())
    results = aotgrad.function(program, forward=aotgrad.run_eagerly)(x)
    assert [result._version for result in results] == [result._version for result in program(x)]


def test_gradients_do_not_depend_on_what_only_told_a_size():
    def program(x, w):
        gradient = torch.func.grad(lambda t: (t * w).sum())(x)
        x.add_(1)
        return gradient

    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    gradient = aotgrad.function(program, forward=aotgrad.run_eagerly)(x, w)
    (slope,) = torch.autograd.grad(gradient.square().sum(), w, create_graph=True)
    slope.sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_a_graph_writes_no_complex_input_itself():
    """Torch's own operator would, and count the write, which is then counted once more."""
    x = torch.ones(3, dtype=torch.complex64)
    graph = torch.fx.symbolic_trace(lambda x: (x.mul_(2) + 1,))
    aotgrad.compile(graph, [x], forward=aotgrad.run_eagerly, in_place=True)(x)
    assert (x._version, x.tolist()) == (1, [2.0] * 3)
