"""Pooling against eager: windows written out and reduced, padded, dilated, adaptive; forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from compiled import check, fallbacks, kernels

aten = torch.ops.aten
X = torch.randn(2, 3, 11, 13)
LAST = X.to(memory_format=torch.channels_last)

FORWARD = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max padded": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max dilated": lambda x: F.max_pool2d(x, 2, 3, 1, 2, return_indices=True),
    "max ceil": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
    "max large": lambda x: F.max_pool2d(x, 6, 3, return_indices=True),
    "max of 3": lambda x: F.max_pool3d(x.contiguous(), (1, 2, 2), return_indices=True),
    "mean": lambda x: F.avg_pool2d(x, 2),
    "mean padded": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "mean ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "mean with divisor": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=7),
    "mean large": lambda x: F.avg_pool2d(x, 7, 2, 2, count_include_pad=False),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (4, 5), return_indices=True),
    "adaptive of fewer": lambda x: F.adaptive_avg_pool2d(x, (20, 4)),
}


@pytest.mark.parametrize("x", [X, LAST], ids=["rows", "channels last"])
@pytest.mark.parametrize("name", FORWARD)
def test_forward(name, x):
    assert fallbacks(FORWARD[name], x) == []
    check(FORWARD[name], x)


@pytest.mark.parametrize("x", [X, LAST], ids=["rows", "channels last"])
@pytest.mark.parametrize("name", FORWARD)
def test_backward(name, x):
    def gradient(x):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            outputs = FORWARD[name](x)
            result = outputs[0] if isinstance(outputs, tuple) else outputs
            return torch.autograd.grad(result, x, torch.ones_like(result))

    check(gradient, x)


def test_what_is_outside_wins_no_tie_and_the_last_nan_wins():
    low = torch.full((1, 1, 4, 4), -torch.inf)
    nan = low.clone().index_fill(3, torch.tensor([1, 2]), torch.nan)
    for x in (low, nan, torch.zeros(1, 1, 4, 4)):
        check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)


@pytest.mark.parametrize("size", [2, 5, 6, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_last_of_several_nan_wins_in_windows_of_all_sizes(size, dtype):
    x = torch.randn(1, 2, 16, 16).to(dtype)
    x[0, 0, 1, 1] = x[0, 0, 4, 4] = x[0, 0, 4, 5] = x[0, 1, 15, 15] = torch.nan
    check(lambda x: F.max_pool2d(x, size, return_indices=True), x)
    check(lambda x: F.adaptive_max_pool2d(x, 16 // size, return_indices=True), x)


def test_pooling_is_fused_with_its_neighbours():
    assert kernels(lambda x: F.max_pool2d(x.relu(), 2).relu() + 1, X) == 1
    assert kernels(lambda x: F.adaptive_avg_pool2d(x * 2, 1).flatten(1).relu(), X) == 1


def test_gradients_of_channels_last_pools_are_no_fallback():
    def gradient(grad, x, indices):
        return aten.max_pool2d_with_indices_backward(grad, x, [3, 3], [2, 2], [1, 1], [1, 1], False, indices) * (x > 0)

    values, indices = F.max_pool2d(LAST, 3, 2, 1, return_indices=True)
    assert fallbacks(gradient, values, LAST, indices) == []
    assert kernels(gradient, values, LAST, indices) == 1
