"""Gradients and values where formulas part (NaN, infinities, zeros, ends): eager's kind of number, and its sign.

The numbers fill whole vectors: behind the last of them eager's own kernels give other gradients to NaN.
"""

import math

import pytest
import torch
import torch.nn.functional as F

import compile_api

OF_ONE = {
    **{name: getattr(F, name) for name in (
        "elu", "celu", "selu", "hardswish", "hardsigmoid", "hardtanh", "relu6", "relu", "leaky_relu", "silu",
        "softplus", "logsigmoid", "softsign", "tanhshrink", "softshrink", "hardshrink",
    )},
    "elu of 2": lambda x: F.elu(x, 2.0),
    "logit": lambda x: torch.logit(x, 0.1),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "norm of one": lambda x: x.view(-1, 1).norm(dim=1),
    "third norm of one": lambda x: torch.linalg.vector_norm(x.view(-1, 1), 3, dim=1),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, x.flip(0), reduction="none"),
    "mean of smooth_l1": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x)),
    "huber": lambda x: F.huber_loss(x, x.flip(0), reduction="none"),
    "margins": lambda x: F.multi_margin_loss(x.view(-1, 2), torch.zeros(x.numel() // 2, dtype=torch.long)),
}  # fmt: skip
SIZES = (0.0, 0.1, 0.5, 1.0, 2.5, 7.5, 20.0, math.inf)


def kinds(tensor):
    """3 for NaN, 2 for infinity, 1 for a number, 0 for zero; with the sign of what is not NaN."""
    size = torch.where(tensor.isinf(), 2, (tensor != 0).int())
    return torch.where(tensor.isnan(), 3, size * tensor.sign().nan_to_num().int())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("name", OF_ONE)
def test_gradients_of_odd_numbers(name, dtype):
    numbers = torch.tensor([*SIZES, *(-size for size in SIZES), math.nan, 3.0], dtype=dtype).repeat(64)

    def program(x):
        result = OF_ONE[name](x)
        return result, *torch.autograd.grad(result.sum(), x)

    expected = program(numbers.clone().requires_grad_())
    found = compile_api.compile(program)(numbers.clone().requires_grad_())
    for ours, eagers in zip(found, expected, strict=True):
        assert torch.equal(kinds(ours), kinds(eagers))
        near = torch.isclose(ours, eagers, rtol=1e-5, equal_nan=True)
        assert near.all()


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_at_odd_places(mode, padding):
    image = torch.randn(2, 3, 4, 5)
    places = torch.rand(2, 3, 7, 2) * 3 - 1.5
    places.view(-1)[::3] = torch.tensor([math.nan, math.inf, -math.inf, 1e30, -1e30, 1.0, -1.0] * 4)

    def program(image, places):
        return F.grid_sample(image, places, mode, padding, align_corners=False) * 2

    found, expected = compile_api.compile(program)(image, places), program(image, places)
    assert torch.isclose(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True).all()
