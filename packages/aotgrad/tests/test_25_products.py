"""Gradients of products: eager reads the elements to choose a formula, and graphs choose alike."""

from itertools import product

import pytest
import torch

import aotgrad

# Torch 2.11 has no formula for `cumprod` beside a zero that could be traced: products are written out there.
OLDER = torch.__version__ < "2.12"
NAN, INF = float("nan"), float("inf")

PROGRAMS = {
    "prod()": lambda x: x.prod(),
    "prod(0)": lambda x: torch.prod(x, 0),
    "prod(-1, keepdim)": lambda x: x.prod(-1, keepdim=True),
    "prod() of doubles": lambda x: x.prod(dtype=torch.float64),
    "prod(0) of doubles": lambda x: x.prod(0, dtype=torch.float64),
    "cumprod(0)": lambda x: x.cumprod(0),
    "cumprod(-1)": lambda x: torch.cumprod(x, -1),
    "cumprod_(0)": lambda x: x.clone().cumprod_(0),
}
ROWS = [*product([0.0, NAN, INF, 1e-30, 2.0], repeat=3), (1e-30, 1e-30, 1e30)]
INPUTS = [
    *ROWS,
    *([ROWS[i], ROWS[j]] for i in range(0, 126, 25) for j in range(0, 126, 11)),
    *([value] for value in (0.0, NAN, INF, 2.0)),
    *(0.0, NAN, INF, 2.0),
    *([[0.0], [INF]], [[2.0], [INF]], [], [[], []], [1 + 2j, 2j, 3 - 1j], [1 + 2j, 0j, 3 - 1j]),
]


def gradient(fn, value, **options):
    x = torch.tensor(value, requires_grad=True)
    y = fn(x)
    return torch.autograd.grad(y, x, torch.full_like(y, 1.5), **options)[0], x


def compiled(fn):
    return aotgrad.function(fn, forward=aotgrad.run_eagerly)


@pytest.mark.parametrize("name", PROGRAMS)
def test_first_gradients(name):
    ours = compiled(PROGRAMS[name])
    for value in INPUTS:
        if torch.tensor(value).is_complex() and "doubles" in name:
            continue
        if OLDER and "cumprod" in name and (torch.tensor(value) == 0).any():
            continue
        found, expected = gradient(ours, value)[0], gradient(PROGRAMS[name], value)[0]
        torch.testing.assert_close(found, expected, equal_nan=True, msg=lambda m, value=value: f"{value}: {m}")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.startswith("prod")])
@pytest.mark.parametrize("value", [(2, 3, 4), (0, 3, 4), (0, 0, 4), (0, 0, 0), (INF, 2, 3), ((0, 2), (3, 4))])
def test_second_gradients(name, value):
    def second(fn):
        found, x = gradient(fn, torch.tensor(value, dtype=torch.float32).tolist(), create_graph=True)
        return torch.autograd.grad(found.sum(), x)

    torch.testing.assert_close(second(compiled(PROGRAMS[name])), second(PROGRAMS[name]), equal_nan=True)


def test_hooks_on_the_product_see_its_part_of_the_second_gradient():
    def seen(fn):
        x, parts = torch.tensor([2.0, 3.0, 4.0], requires_grad=True), []
        y = fn(x)
        y.register_hook(parts.append)
        torch.autograd.grad(y, x, create_graph=True)[0].sum().backward()
        return parts

    torch.testing.assert_close(seen(compiled(torch.prod)), seen(torch.prod))


def test_gradients_that_the_program_takes():
    def program(x):
        return torch.autograd.grad(x.prod(), x)[0]

    for value in ((0.0, 0.0, INF), (INF, 2.0, 3.0), (0.0, INF, 2.0)):
        x = torch.tensor(value, requires_grad=True)
        torch.testing.assert_close(compiled(program)(x), program(x), equal_nan=True)


def test_sizes_that_vary():
    ours = aotgrad.function(torch.prod, forward=aotgrad.run_eagerly, dynamic=True)
    for value in ((INF, 2.0), (INF, 2.0, 3.0), (0.0, INF, 2.0, 1.0)):
        torch.testing.assert_close(gradient(ours, value)[0], gradient(torch.prod, value)[0], equal_nan=True)
