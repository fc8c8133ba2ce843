"""Gradients of the largest, smallest and middle element: nothing comes to the others, whatever arrives."""

import pytest
import torch

import aotgrad

NAN, INF = float("nan"), float("inf")
FUNCTIONS = (torch.max, torch.min, torch.median, torch.nanmedian, torch.Tensor.max, torch.Tensor.nanmedian)
INPUTS = (2.0, NAN, (1.0, 3.0, 2.0), (3.0, 1.0, 3.0, 1.0), (INF, NAN, 1.0, NAN), (INF, -INF), ((1.0, 2.0), (2.0, 3.0)))
ARRIVING = (1.5, INF, -INF, NAN, 0.0)


def compiled(fn, **options):
    return aotgrad.function(fn, forward=aotgrad.run_eagerly, **options)


def gradient(fn, value, arrives, **options):
    x = torch.tensor(value, requires_grad=True)
    y = fn(x)
    return torch.autograd.grad(y, x, torch.full_like(y, arrives), **options)[0]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients(function):
    ours = compiled(function)
    for value in INPUTS:
        for arrives in ARRIVING:
            found, expected = gradient(ours, value, arrives), gradient(function, value, arrives)
            assert str(found) == str(expected), (value, arrives)


@pytest.mark.parametrize("function", FUNCTIONS[:4])
def test_second_gradients(function):
    def second(fn):
        x = torch.tensor([3.0, 1.0, 3.0, 2.0], requires_grad=True)
        first = torch.autograd.grad(fn(x) ** 2, x, create_graph=True)[0]
        return torch.autograd.grad(first, x, torch.tensor([INF, 1.0, 2.0, NAN]))[0]

    torch.testing.assert_close(second(compiled(function)), second(function), equal_nan=True)


def test_gradients_that_the_program_takes_and_sizes_that_vary():
    def program(x):
        return torch.autograd.grad((x.max() - 3).sqrt(), x)[0]

    ours = compiled(program, dynamic=True)
    for value in ((1.0, 3.0, 2.0), (3.0, 1.0), (4.0, 4.0, 1.0, 0.0)):
        x = torch.tensor(value, requires_grad=True)
        torch.testing.assert_close(ours(x), program(x), equal_nan=True)


def test_others_of_the_name_are_torchs_own():
    def program(x, y):
        return torch.max(x, y), *x.max(0), *torch.median(x, 0, keepdim=True), x.min(y)

    def gradients(fn):
        x, y = torch.tensor([1.0, 3.0, 2.0], requires_grad=True), torch.tensor([1.0, 2.0, 3.0])
        results = [each for each in fn(x, y) if each.requires_grad]
        return torch.autograd.grad(results, x, [torch.full_like(each, INF) for each in results])[0]

    torch.testing.assert_close(gradients(compiled(program)), gradients(program), equal_nan=True)
