"""Statistics of numbers that are far from zero for how much they differ: as near to double precision as eager's."""

import pytest
import torch
from torch.nn import functional as nnf

import compile_api

NORMS = {
    "batch norm": lambda x: nnf.batch_norm(
        x, torch.zeros(4, dtype=x.dtype), torch.ones(4, dtype=x.dtype), training=True
    ),
    "layer norm": lambda x: nnf.layer_norm(x, x.shape[-1:]),
    "group norm": lambda x: nnf.group_norm(x, 2),
    "instance norm": nnf.instance_norm,
    "variance": lambda x: x.detach().var((0, 2)),
}


def moved_statistics(x):
    mean, variance = torch.zeros(4, dtype=x.dtype), torch.ones(4, dtype=x.dtype)
    nnf.batch_norm(x, mean, variance, training=True, momentum=1.0)
    return torch.stack([mean, variance])


def results(function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    if y.requires_grad:
        y.square().sum().backward()
    return [y.detach(), *([] if x.grad is None else [x.grad])]


@pytest.mark.parametrize("offset", [0.0, 100.0, 10_000.0])
@pytest.mark.parametrize("name", [*NORMS, "running statistics"])
def test_no_further_from_double_precision_than_twice_eager(name, offset):
    function = NORMS.get(name, moved_statistics)
    x = torch.randn(16, 4, 64, generator=torch.Generator().manual_seed(0)) + offset
    exact = results(function, x.double())
    found, eager = results(compile_api.compile(function), x), results(function, x)
    for ours, theirs, true in zip(found, eager, exact, strict=True):
        unit = true.abs().max()
        assert (ours - true).abs().max() <= 2 * (theirs - true).abs().max() + 1e-6 * unit
