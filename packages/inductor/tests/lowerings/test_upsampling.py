"""Images enlarged and shrunk, against eager."""

import pytest
import torch
import torch.nn.functional as F
from compiled import check, fallbacks, kernels

SHAPES = {1: (2, 3, 7), 2: (2, 3, 5, 7), 3: (1, 2, 3, 4, 5)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@pytest.mark.parametrize("ndim", SHAPES)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "aligned"])
@pytest.mark.parametrize("scale", [2, 3, 0.5, 1.6, "to sizes"])
@pytest.mark.parametrize("last", [False, True])
def test_interpolation(ndim, mode, scale, last):
    x = torch.randn(SHAPES[ndim])
    x = x.movedim(1, -1).contiguous().movedim(-1, 1) if last else x
    how = {"size": tuple(range(4, 4 + ndim))} if scale == "to sizes" else {"scale_factor": scale}
    if mode in ("linear", "aligned"):
        how |= {"mode": LINEAR[ndim], "align_corners": mode == "aligned"}
    else:
        how |= {"mode": mode}
    check(lambda x: F.interpolate(x, **how), x, exact_strides=ndim > 1, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_whole_scales_are_fused(mode):
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    function = lambda x: F.interpolate(x, scale_factor=2, mode=mode).relu() + 1
    assert fallbacks(function, x) == []
    assert kernels(function, x) == 1


def test_the_gradient_of_nearest_adds_up_what_was_made_of_an_element():
    def gradient(x, grad):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(F.interpolate(x, scale_factor=2), x, grad)

    inputs = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 8, 10)
    assert fallbacks(gradient, *inputs) == []
    check(gradient, *inputs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_interpolated_in_integers(mode):
    x = torch.randint(0, 256, (1, 2, 5, 6), dtype=torch.uint8)
    check(lambda x: F.interpolate(x, size=(7, 9), mode=mode), x, atol=0, rtol=0)
