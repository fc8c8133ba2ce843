"""Gradients of losses taken apart, beside torch's kernels: inf and NaN come to no other elements, and none is lost."""

from itertools import product

import pytest
import torch

import inductor

aten = torch.ops.aten
TAKEN_APART = inductor.decompositions()
ARRIVING = torch.tensor([torch.inf, -torch.inf, torch.nan, 2.0])
TARGET = torch.tensor([2, 0, 1, -100])


def same(op, *args):
    found = TAKEN_APART[op](*args)
    torch.testing.assert_close(found, op(*args), equal_nan=True, atol=0, rtol=1e-6)


@pytest.mark.parametrize("weight", [None, torch.tensor([1.0, torch.inf, 3.0])])
def test_only_the_class_that_was_asked_for_gets_a_gradient(weight):
    x, total = torch.randn(4, 3), torch.tensor(3.0)
    for arrives, reduction in product(ARRIVING, (1, 2)):
        same(aten.nll_loss_backward.default, arrives, x, TARGET, weight, reduction, -100, total)
        same(aten.nll_loss_backward.default, arrives, x[0], TARGET[0], weight, reduction, -100, total)
    same(aten.nll_loss_backward.default, ARRIVING, x, TARGET, weight, 0, -100, total)
    image, target = torch.randn(1, 3, 2, 2), TARGET.view(1, 2, 2)
    same(aten.nll_loss2d_backward.default, ARRIVING.view(1, 2, 2), image, target, weight, 0, -100, total)
    same(aten.nll_loss2d_backward.default, ARRIVING[0], image, target, weight, 1, -100, total)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_large_margins_have_small_gradients(reduction):
    x, target = torch.tensor([-30.0, -1.0, 0.0, 20.0, 50.0]), torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0])
    for arrives in ARRIVING:
        same(aten.soft_margin_loss_backward.default, arrives.expand(5 if reduction == 0 else ()), x, target, reduction)
