"""Products of matrices: what the library does, and what the kernel behind does for it."""

import pytest
import torch
import torch.nn.functional as F
from compiled import check, program_of

from inductor.ir.program import Allocate, Call

x, w, b = torch.randn(6, 8), torch.randn(5, 8), torch.randn(5)


def calls(function, *inputs):
    return [str(step.target) for step in program_of(function, *inputs).steps if isinstance(step, Call)]


def test_a_bias_is_added_by_the_kernel_that_reads_the_product():
    assert calls(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b) == ["aten.mm.default"]
    check(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b)


def test_also_through_views():
    def function(x, w, b):
        return F.layer_norm(F.linear(x.view(2, 3, 8), w, b) + 1, (5,))

    assert calls(function, x, w, b) == ["aten.mm.default"]
    check(function, x, w, b)


@pytest.mark.parametrize("function", [
    lambda x, w, b: F.linear(x, w, b),
    lambda x, w, b: F.linear(F.linear(x, w, b), w.t()),
    lambda x, w, b: torch.addmm(b, x, w.t(), alpha=2).relu(),
])  # fmt: skip
def test_otherwise_the_library_adds_it(function):
    assert "aten.addmm.default" in calls(function, x, w, b)
    check(function, x, w, b)


def test_a_sum_in_a_half_type_is_rounded_once():
    halves = [value.bfloat16() for value in (x, w, b)]
    assert calls(lambda x, w, b: F.linear(x, w, b).relu(), *halves) == ["aten.addmm.default"]


def test_what_reads_a_product_writes_over_it():
    steps = program_of(lambda x, w: F.gelu(x @ w.t()) @ w, x, w).steps
    assert all(step.reuse for step in steps if isinstance(step, Allocate))
