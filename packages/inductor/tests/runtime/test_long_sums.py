"""Sums of so many that one running value would lose digits, beside float64."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor

LONG = 400_000
LONG_SUMS = {
    "beside a scan": lambda x: (x.sum(), x.cumsum(0))[0],
    "of columns": lambda x: x.view(-1, 4).sum(0),
    "against the layout": lambda x: x.view(-1, 4).t().sum(1),
    "of a turned tensor": lambda x: x.flip(0).sum(),
    "of what is chosen": lambda x: torch.where(torch.arange(LONG) % 7 > 0, x, x * 2).sum(),
    "of windows": lambda x: x.unfold(0, 4, 1).sum(),
    "beside a row": lambda x: (x.view(-1, 8) + x[:8]).sum(),
}


@pytest.mark.parametrize("name", LONG_SUMS)
def test_long_sums_lose_no_digits(name):
    """Equal numbers are rounded the same way each time, which adds up."""
    x = torch.full((LONG,), 0.1)
    exact = LONG_SUMS[name](x.double())
    compiled = inductor.compile(make_fx(LONG_SUMS[name])(x), [x])
    assert compiled.report.failure is None
    (found,) = compiled.call([x])
    assert ((found - exact) / exact).abs().max() < 2e-5
