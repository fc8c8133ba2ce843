"""Triton kernels of the program's own on a GPU: ``programs/triton_kernels.py``, and what is recorded as CUDA graphs."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

import compile_api

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

if torch.cuda.is_available():
    sys.path.insert(0, str(Path(__file__).parent.parent / "programs"))
    programs = importlib.import_module("triton_kernels")
    test_functions = programs.test_functions
    test_a_function_with_a_backward_of_its_own = programs.test_a_function_with_a_backward_of_its_own
    test_the_neighbours_are_fused = programs.test_the_neighbours_of_a_kernel_are_fused_without_copies
    test_an_error_of_a_kernel_is_raised_as_it_is = programs.test_an_error_of_a_kernel_is_raised_as_it_is


@pytest.mark.parametrize("name", ["between_others", "into_views", "one_after_another", "by_configuration"])
def test_functions_are_recorded(name):
    """A kernel that is not tuned yet is tuned in the calls before."""
    function = getattr(programs, name)
    compiled = compile_api.compile(function, mode="reduce-overhead")
    for _ in range(6):
        x, y = torch.randn(360, device="cuda"), torch.randn(360, device="cuda")
        torch.testing.assert_close(compiled(x, y), function(x, y))
    programs.is_whole(compiled)


def test_a_model_is_recorded():
    model = programs.Net().cuda()
    compiled = compile_api.compile(model, mode="reduce-overhead")
    for _ in range(6):
        x = torch.randn(2, 3, 48, device="cuda")
        result = compiled(x)
        result.sum().backward()
        ours = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        expected = programs.Net.forward(model, x)
        expected.sum().backward()
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(ours, [parameter.grad for parameter in model.parameters()])
        model.zero_grad()
    assert compile_api.report(compiled).own_kernels
