"""Functions that Triton kernels compute by sequences of their own, against double precision."""

from dataclasses import replace

import pytest
import torch
from compiled import gpu_program_of
from simulated import INTERPRETED

from inductor.codegen.triton import print_kernel
from inductor.ir.expr import Const, Load, apply
from inductor.ir.index import Index, loop_variable
from inductor.ir.kernel import Store
from inductor.ir.program import Launch
from inductor.schedule.layouts import with_layout

F32 = torch.float32
ONE = Const(1.0, F32)
UNIT = 2.0**-23
SPECIAL = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, 2.0**-126, -(2.0**-130), 3e38, -3e38]


def sample():
    dense = torch.linspace(-12, 12, 20_001 if INTERPRETED else 2_000_003)
    return torch.cat([dense, torch.logspace(-30, 2, 401), -torch.logspace(-30, 2, 401), torch.tensor(SPECIAL)])


def made(kernel_of, value, n):
    """A kernel that stores a function of n numbers."""
    i = loop_variable("i", n)
    body = [Store("out0", Index.of(i), value(Load("in0", Index.of(i), F32)))]
    return kernel_of([i], [([], body)], ("in0", F32, n, "in"), ("out0", F32, n, "out"))


def evaluate(run, kernel_of, value, x):
    return run(made(kernel_of, value, x.numel()), {"in0": x, "out0": torch.empty_like(x)})["out0"]


@pytest.mark.parametrize("op", ["tanh", "sigmoid"])
def test_within_four_units_of_the_last_place(run, kernel_of, op):
    x = sample()
    x = x[(x > -80) | (x == -torch.inf) | x.isnan()]  # beyond, sigmoids have no full precision
    found = evaluate(run, kernel_of, lambda a: apply(op, a), x)
    bound = 4 if op == "tanh" else 40  # the exponent of a sigmoid is rounded, and that may be as large as 80
    torch.testing.assert_close(found.double(), getattr(torch, op)(x.double()), rtol=bound * UNIT, atol=2e-38,
                               equal_nan=True)  # fmt: skip


def erf_and_one(x):
    return apply("add", apply("erf", x), ONE)


def test_one_and_an_error_function(run, kernel_of):
    x = sample()
    found = evaluate(run, kernel_of, erf_and_one, x)
    torch.testing.assert_close(found.double(), 1 + torch.erf(x.double()), rtol=0, atol=2.0**-21, equal_nan=True)


def test_what_is_left_of_one_keeps_three_digits(run, kernel_of, machine):
    """Where 1 + erf(x) has lost them: GELU of -4 has them too."""
    x = torch.linspace(-3, 0, 3001)
    found = evaluate(run, kernel_of, erf_and_one, x)
    exact = torch.erfc(-x.double())
    bound = 1e-3 if machine == "cuda" or INTERPRETED else 1e-2
    torch.testing.assert_close(found.double(), exact, rtol=bound, atol=0)


def printed_for_gpu(kernel):
    return print_kernel(with_layout(replace(kernel, device="cuda")))


def test_the_sum_is_one_operator_for_triton_alone(kernel_of):
    assert "erf_and_one(" in printed_for_gpu(made(kernel_of, erf_and_one, 8)).text
    other = made(kernel_of, lambda a: apply("add", apply("erf", a), Const(2.0, F32)), 8)
    assert "tl.erf(" in printed_for_gpu(other).text


def test_gelu_has_it_as_it_is_lowered(kernel_of):
    program = gpu_program_of(lambda x: torch.nn.functional.gelu(x), (4096,), dtype=torch.bfloat16)
    (launch,) = (step for step in program.steps if isinstance(step, Launch))
    assert "erf_and_one(" in printed_for_gpu(launch.kernel).text


def test_a_sum_of_products_with_it(run, kernel_of):
    x = sample()
    x = x[x.abs() < 1e4]
    half = lambda a: apply("mul", a, Const(0.5, F32))
    value = lambda a: apply("fma", half(a), apply("erf", a), half(a))
    found = evaluate(run, kernel_of, value, x)
    exact = x.double() / 2 * (1 + torch.erf(x.double()))
    torch.testing.assert_close(found.double(), exact, rtol=4 * UNIT, atol=2e-6)
