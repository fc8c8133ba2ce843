"""Dead code and common subexpressions, found without touching the graph."""

import torch
from compiled import check, kernels, program_of, traced

from inductor.ir.program import Call
from inductor.rewrites.redundant import find_redundant


def calls(function, *inputs):
    return [str(step.target) for step in program_of(function, *inputs).steps if isinstance(step, Call)]


def dead_product(x):
    x @ x
    return x + 1


def test_what_nobody_reads_is_not_computed():
    assert calls(dead_product, torch.randn(3, 3)) == []


def test_equal_calls_are_made_once():
    function = lambda x: (x @ x) + (x @ x).relu()
    assert calls(function, torch.randn(3, 3)) == ["aten.mm.default"]
    check(function, torch.randn(3, 3))


def test_numbers_of_different_types_are_different():
    check(lambda x: (x * 1, x * 1.0, x * True), torch.arange(3))


def test_random_calls_are_all_made():
    def function(x):
        torch.rand_like(x)
        return torch.rand_like(x) + torch.rand_like(x)

    assert calls(function, torch.randn(3)) == ["aten.rand_like.default"] * 3


def test_two_outputs_that_are_equal_have_memory_of_their_own():
    program = check(lambda x: (x + 1, x + 1), torch.randn(3))
    assert len({output.name for output in program.outputs}) == 2


def test_a_value_read_before_and_after_a_write_is_computed_twice():
    def function(x):
        before = x.sum()
        x.add_(1)
        return before, x.sum()

    check(function, torch.randn(3))


def test_the_graph_stays_as_it_was():
    gm = traced(lambda x: (x + 1) * (x + 1), torch.randn(3))
    code = gm.code
    assert len(find_redundant(gm.graph).same) == 1
    assert gm.code == code
    assert kernels(lambda x: (x + 1) * (x + 1), torch.randn(3)) == 1
