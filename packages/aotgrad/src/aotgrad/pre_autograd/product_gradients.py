"""Gradients of products: eager looks at the elements to choose a formula, a graph computes both and chooses by a mask.

Without a zero eager divides the result by each element; with one it multiplies the others.  They differ where there is
NaN or inf, and where a product underflows.  Traced tensors have no elements, so autograd writes the second formula;
a hook on its node puts the choice in the place of that.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from aotgrad.tensors.subclasses import is_wrapped
from aotgrad.torch_versions import is_functorch_wrapped_tensor

ByDivision = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""The gradient where no element is zero, from autograd's node, the incoming gradient, the input and the result."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The formula that eager prefers to multiplying: `divide` where no element is zero; with `stops_at_two`, zeros
    where two are; with `passes_one`, a single factor is passed on."""

    divide: ByDivision
    stops_at_two: bool = False
    passes_one: bool = False


def _of_all(node: object, arrives: torch.Tensor, input: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    return arrives * (result / input).conj()


def _of_rows(node: Any, arrives: torch.Tensor, input: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    if node._saved_keepdim:
        return _of_all(node, arrives, input, result)
    dim = _dim(node)
    return _of_all(node, arrives.unsqueeze(dim), input, result.unsqueeze(dim))


def _running(node: object, arrives: torch.Tensor, input: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    dim = _dim(node)
    return (result.conj() * arrives).flip(dim).cumsum(dim).flip(dim) / input.conj()


def _dim(node: Any) -> int:
    """The dimension of a reduction; autograd tells a negative one as an unsigned number."""
    dim: int = node._saved_dim
    return dim - 2**64 if dim >= 2**63 else dim


CHOICES: dict[str, Choice] = {
    "ProdBackward0": Choice(_of_all, stops_at_two=True),
    "ProdBackward1": Choice(_of_rows),
    "CumprodBackward0": Choice(_running, passes_one=True),
}


def product(function: Callable[..., Any], input: torch.Tensor, *args: object, **kwargs: object) -> Any:
    """The result of `function`, with a gradient that is chosen as in eager."""
    result = function(input, *args, **kwargs)
    node = result.grad_fn
    choice = CHOICES.get(node.name()) if node is not None else None
    if choice is not None and not _is_multiplied(result, node, choice):
        node.register_hook(partial(_chosen, choice, node))
    return result


def _is_multiplied(result: torch.Tensor, node: Any, choice: Choice) -> bool:
    """True if eager multiplies in any case: for 0-d tensors, and those that stand for others."""
    input = node._saved_self
    if input.dim() == 0 or is_wrapped(input) or is_functorch_wrapped_tensor(input):
        return True
    return choice.passes_one and bool(result.size(_dim(node)) == 1)


def _chosen(choice: Choice, node: Any, found: Sequence[Any], arrived: Sequence[Any]) -> tuple[Any, ...] | None:
    multiplied, arrives = found[0], arrived[0]
    if multiplied is None or arrives is None:
        return None
    input, result = node._saved_self.to(arrives.dtype), node._saved_result
    zeros = input == 0
    if choice.stops_at_two and not torch.is_grad_enabled():
        # All are zero then, but for NaN: so that derivatives still go through what was multiplied.
        multiplied = multiplied.masked_fill((zeros.sum() > 1) & multiplied.isnan(), 0)
    some = zeros.any()
    # Derivatives go through both formulas: the one that is not taken divides by nothing that is zero.
    divided = choice.divide(node, arrives, input.masked_fill(some, 1), result)
    return (torch.where(some, multiplied, divided.to(multiplied.dtype)), *found[1:])
