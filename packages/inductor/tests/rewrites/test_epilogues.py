"""GELU behind a product with a bias, as one call of the library on a GPU."""

import pytest
import torch
import torch.nn.functional as F
from simulated import program_for_gpu, simulated

from inductor.ir.program import Call


def calls(function, inputs):
    program, _ = program_for_gpu(function, inputs)
    return [str(step.target) for step in program.steps if isinstance(step, Call)]


def layer(x, w, b):
    return F.gelu(F.linear(x, w, b), approximate="tanh")


def inputs(dtype=torch.bfloat16):
    return [torch.randn(2, 5, 8).to(dtype), torch.randn(6, 8).to(dtype), torch.randn(6).to(dtype)]


def test_the_product_takes_the_activation_along():
    given = inputs()
    assert calls(layer, given) == ["aten._addmm_activation.default"]
    (result,) = simulated(layer, given)(*given)
    assert result.shape == (2, 5, 6)
    exact = layer(*(x.double() for x in given))
    torch.testing.assert_close(result.double(), exact, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("function", [
    lambda x, w, b: F.relu(F.linear(x, w, b)),
    lambda x, w, b: F.gelu(F.linear(x, w, b)),
    lambda x, w, b: (lambda y: F.gelu(y, approximate="tanh") + y)(F.linear(x, w, b)),
])  # fmt: skip
def test_other_activations_and_products_that_others_read_stay_apart(function):
    assert calls(function, inputs()) == ["aten.addmm.default"]


def test_single_precision_is_left_as_it_is():
    assert "_addmm_activation" not in str(calls(layer, inputs(torch.float32)))
