"""Half precision: a value, and what is made of it, see one number, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import compile_api

Function = Callable[[torch.Tensor], torch.Tensor]
MADE: dict[str, Function] = {
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "a product": lambda x: x * 1.3,
}
BESIDE: dict[str, Function] = {
    "its maximum": lambda y: y - y.amax(-1, keepdim=True) + (y - y.amax(-1, keepdim=True) == 0),
    "its minimum": lambda y: (y - y.amin(-1, keepdim=True)).sqrt(),
    "its mean and deviation": lambda y: (y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True) + 1e-5),
    "those of layer norm": lambda y: F.layer_norm(y, y.shape[-1:]),
    "those of group norm": lambda y: F.group_norm(y.unsqueeze(-1), 1).squeeze(-1),
    "those of batch norm": lambda y: F.batch_norm(y, None, None, training=True),
    "its own float": lambda y: y.float() - y.amax(-1, keepdim=True).float(),
}


def both(function: Function, x: torch.Tensor) -> list[torch.Tensor]:
    """The result and the gradient, the latter of a sum with different weights."""
    x = x.clone().requires_grad_()
    result = function(x)
    weights = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).view_as(result)
    return [result.detach(), *torch.autograd.grad(result, x, weights)]


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("made", MADE)
def test_a_value_agrees_with_what_is_made_of_it(made: str, beside: str) -> None:
    function = lambda x: BESIDE[beside](MADE[made](x))
    rows = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))
    for dtype, values in ((torch.bfloat16, torch.full((3, 7), 0.7)), (torch.float16, rows)):
        x = values.to(dtype)
        compile_api.reset()
        for ours, eager, exact in zip(
            both(compile_api.compile(function), x), both(function, x), both(function, x.double()), strict=True
        ):
            allowed = 3 * (eager.double() - exact).abs().nan_to_num() + 0.03 * exact.abs().nan_to_num().max() + 0.03
            assert ((ours.double() - exact).abs().nan_to_num() <= allowed).all(), (dtype, ours, eager)
            assert ours.isnan().equal(eager.isnan())
