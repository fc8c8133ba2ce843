"""What makes tensors of floats that vary, their lengths among it, is compiled and as in eager."""

import pytest
import torch

import compile_api

FACTORIES = {
    "arange": lambda n: torch.arange(float(n)) * 2,
    "steps of a half": lambda n: torch.arange(0, float(n), 0.5),
    "a half of them": lambda n: torch.arange(n / 2, dtype=torch.float64),
    "steps of two": lambda n: torch.arange(0, n, 2.0),
    "from between": lambda n: torch.arange(0.5, n / 3, 0.25),
    "two lengths": lambda n: torch.arange(float(n)).sin().outer(torch.arange(n / 2)),
    "linspace": lambda n: torch.linspace(0, n, n),
    "logspace": lambda n: torch.logspace(0, n / 10, n),
    "full": lambda n: torch.full((n,), n / 2),
    "scalar": lambda n: torch.scalar_tensor(n / 2),
    "tensor": lambda n: torch.tensor([float(n), n / 2]),
    "filled": lambda n: torch.empty(n).fill_(n / 2),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_lengths_and_values_are_eagers(name):
    def program(x, n):
        return FACTORIES[name](n) + x

    compile_api.reset()
    compiled = compile_api.compile(program)
    for n in (5, 7, 9, 12):
        x = torch.ones(())
        torch.testing.assert_close(compiled(x, n), program(x, n))
    report = compile_api.report(compiled)
    assert (len(report.captured), report.breaks, report.left_alone) == (2, (), ())


def test_gradients_of_a_length_of_floats():
    def program(w, n):
        return (torch.arange(float(n)) * w.sin()).sum()

    compiled = compile_api.compile(program)
    for n in (5, 7, 9):
        ours, eagers = (torch.full((), 0.5, requires_grad=True) for _ in range(2))
        compiled(ours, n).backward()
        program(eagers, n).backward()
        torch.testing.assert_close(ours.grad, eagers.grad)
    report = compile_api.report(compiled)
    assert (len(report.captured), report.breaks) == (2, ())
