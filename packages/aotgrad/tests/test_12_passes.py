"""Tidying the joint graph never changes what a caller can see."""

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


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
