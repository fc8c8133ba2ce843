"""Sums of so many that one running value would lose digits, beside float64."""

import pytest
import torch
import torch.nn.functional as F
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


MANY = (1 << 24) + 4
COUNTED = {
    "mean": lambda x: x.mean(1),
    "var": lambda x: x.var(1),
    "of both": lambda x: torch.std(x),
    "mean of numbers": lambda x: x.nanmean(1),
    "true": lambda x: (x > 0.5).double().mean(1),
    "not zero": lambda x: x.count_nonzero(1),
    "loss": lambda x: F.mse_loss(x, x * 2),
    "picked": lambda x: F.nll_loss(x.t(), (x[0] > 5).long()),
    "scattered": lambda x: torch.zeros(2, 3).to(x).scatter_reduce(1, (x > 5).long(), x, "mean", include_self=False),
    "scattered to some": lambda x: torch.ones(2, 3).to(x).scatter_reduce(1, (x > 5).long(), x, "mean"),
    "sums of ones": lambda x: torch.zeros(2, 3).to(x).index_add(1, (x[0] > 5).long(), torch.ones_like(x)),
    "last sum": lambda x: (x > 0.5).cumsum(1, dtype=torch.float64)[:, -1:],
}


@pytest.mark.parametrize("name", COUNTED)
def test_more_elements_than_single_precision_counts(name):
    x = torch.tensor([[0.25], [1.0]], dtype=torch.float64).expand(2, MANY)
    compiled = inductor.compile(make_fx(COUNTED[name])(x), [x])
    torch.testing.assert_close(compiled(x)[0], COUNTED[name](x), rtol=1e-11, atol=1e-12)
