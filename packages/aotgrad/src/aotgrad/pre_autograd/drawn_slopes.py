"""Slopes of `rrelu` drawn apart from what they multiply: the operator that draws is none that derivatives go through.

What multiplies is the kernel of `prelu`, one slope an element: its gradient depends on the elements as that of `rrelu`
does, with a derivative of zeros, which a product with the slopes would not have.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional as nnf

from aotgrad.torch_versions import aten


def sloped(
    func: Callable[..., torch.Tensor], input: torch.Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3,
    training: bool = False, generator: torch.Generator | None = None,
) -> torch.Tensor:  # fmt: skip
    """`rrelu`, or `rrelu_`, by slopes that are drawn apart where gradients are followed."""
    if not (input.requires_grad and torch.is_grad_enabled()):
        return func(input, lower, upper, training, generator)
    if not training:
        leaky: Callable[..., torch.Tensor] = nnf.leaky_relu_ if func is torch.rrelu_ else nnf.leaky_relu
        return leaky(input, (lower + upper) / 2)
    with torch.no_grad():
        # It draws where a number is not positive, in this order, and the slope is what becomes of -1.
        signs = torch.where(input <= 0, -1.0, 1.0).to(input.dtype)
        slopes = torch.rrelu(signs, lower, upper, True, generator) * signs
    before = input.clone() if func is torch.rrelu_ else input.view_as(input)
    before.register_hook(torch.Tensor.contiguous)  # as the kernel's slopes lie
    after: torch.Tensor = aten._prelu_kernel(before, slopes)
    return input.copy_(after) if func is torch.rrelu_ else after
