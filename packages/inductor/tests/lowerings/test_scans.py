"""Running sums, products and extremes against eager, and what they share a kernel with."""

import pytest
import torch
from compiled import check, fallbacks, kernels

X = torch.randn(5, 7, 9)
CASES = {
    "sum": lambda x: (x.cumsum(0), x.cumsum(1), x.cumsum(-1)),
    "sum of integers": lambda x: (x > 0).cumsum(1),
    "sum to another dtype": lambda x: (x * 9).int().cumsum(0, dtype=torch.float64),
    "product": lambda x: x.cumprod(1),
    "maximum": lambda x: (x.cummax(0), x.cummax(1)),
    "minimum": lambda x: x.round().cummin(1),
    "of a view": lambda x: x.transpose(0, 2).flip(1).cumsum(1),
    "between": lambda x: (x * 2 + 1).cumsum(1).relu() - x,
    "of a scan": lambda x: x.cumsum(0).cumsum(1),
    "after a reduction": lambda x: x.softmax(-1).cumsum(-1) > 0.5,
    "halves": lambda x: x.bfloat16().cumsum(1),
    "one element": lambda x: (x[:1].cumsum(0), x[:1].cummax(0)),
    "nothing": lambda x: x[:0].cumsum(0),
    "a number": lambda x: x[0, 0, 0].cumsum(0),
}


@pytest.mark.parametrize("name", CASES)
def test_scans(name):
    assert fallbacks(CASES[name], X) == []
    check(CASES[name], X)


def test_nan_stays():
    x = X.clone()
    x[1, 2], x[3, 2, 1] = torch.nan, torch.nan
    check(lambda x: (x.cummax(0), x.cummin(0), x.cumsum(1)), x)


def test_the_gradient_of_a_running_sum_is_no_fallback():
    def gradient(x, grad):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(x.cumsum(1), x, grad)

    assert fallbacks(gradient, X, X * 2) == []
    check(gradient, X, X * 2)


def test_scans_share_a_kernel_with_their_neighbours():
    assert kernels(lambda x: (x * 2 + 1).cumsum(1).relu() - x, X) == 1
    assert kernels(lambda x: x.softmax(-1).cumsum(-1) > 0.5, X) == 1
    assert kernels(lambda x: x.cummax(1), X) == 1


def test_what_reads_another_place_of_a_scan_has_a_kernel_of_its_own():
    function = lambda x: (y := x.cumsum(1)) - y[:, -1:]
    assert kernels(function, X) == 2
    check(function, X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_second_pass_over_running_sums(dtype):
    """What a scan gives at one element is not there any more when the row is walked again."""
    check(lambda x: (x.cumsum(-1), x.cumsum(-1).exp().logsumexp(-1)), torch.rand(3, 5, 7).to(dtype))
