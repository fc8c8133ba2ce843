"""Elementwise kernels that are started as one on a GPU."""

from dataclasses import replace

import pytest
import torch
from simulated import program_for_gpu, simulated

from inductor import costs
from inductor.codegen.triton import print_kernel
from inductor.ir.program import Launch
from inductor.schedule.layouts import with_layout


def launches(function, *inputs):
    program, _ = program_for_gpu(function, inputs)
    return [step.kernel for step in program.steps if isinstance(step, Launch)]


def check(function, *inputs):
    expected = function(*[x.clone() for x in inputs])
    for made, wanted in zip(simulated(function, inputs)(*inputs), expected, strict=True):
        torch.testing.assert_close(made, wanted)


def test_one_start_for_the_update_of_many_parameters():
    def update(*tensors):
        return [weight - 0.1 * grad for weight, grad in zip(tensors[::2], tensors[1::2], strict=True)]

    inputs = [torch.randn(shape) for shape in [(3, 5), (64, 32), (7,), (16,), ()] for _ in range(2)]
    (kernel,) = launches(update, *inputs)
    assert len(kernel.members) == 5
    check(update, *inputs)


def test_what_differs_in_size_alone_shares_its_text():
    shapes = [(16 * n,) for n in range(1, 9)]
    (kernel,) = launches(lambda *xs: [x.sin() for x in xs], *[torch.randn(shape) for shape in shapes])
    assert print_kernel(with_layout(kernel)).text.count("sin(") == 1


def test_different_work_is_started_together_too():
    def both(x, y):
        return x.sin(), y.cos() * 2, x.long()

    kernels = launches(both, torch.randn(40), torch.randn(3, 4))
    assert len(kernels) == 1
    check(both, torch.randn(40), torch.randn(3, 4))


def test_what_needs_another_s_result_waits_for_it():
    def chained(x, y):
        rows = x.sum(1)
        return x + 1, y * 2, rows + y, rows.sum() + y

    check(chained, torch.randn(8, 300), torch.randn(8))


def test_kernels_that_read_and_write_one_tensor_stay_apart():
    def swapped(x, y):
        old = x + y
        x.copy_(y.flip(0) * 2)
        return old, x * 3

    check(swapped, torch.randn(6), torch.randn(6))


@pytest.mark.parametrize(("limit", "value"), [("most_arguments", 10), ("most_families", 2), ("largest_member", 100)])
def test_there_is_a_limit_to_what_one_start_takes(limit, value, monkeypatch):
    def many(*tensors):
        kinds = [torch.sin, torch.cos, torch.exp, torch.abs, torch.neg, torch.sqrt]
        return [kind(tensor) for kind, tensor in zip(kinds, tensors, strict=True)]

    inputs = [torch.rand(200 + number) for number in range(6)]
    assert len(launches(many, *inputs)) == 1
    monkeypatch.setattr(costs, "GPU", replace(costs.GPU, **{limit: value}))
    assert len(launches(many, *inputs)) > 1
    check(many, *inputs)
