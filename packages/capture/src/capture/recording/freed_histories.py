"""Tensors whose history was used up by a backward inside of the graph.

They leave the graph without a history, which would keep alive everything that backward needed.  To the program they
still look like what they are in eager: tensors that want a gradient, and through which nobody can go backward again.
Who tries gives no gradient to the tensors behind them, although other ways may lead there.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch


class _Spent(torch.autograd.Function):
    """A step of autograd that passes a tensor on, and refuses to be gone through backward, in torch's own words."""

    @staticmethod
    def forward(ctx: object, tensor: torch.Tensor, *behind: torch.Tensor) -> torch.Tensor:
        return tensor.detach()  # what was given itself would come back as a view of itself

    @staticmethod
    def backward(ctx: object, *grads: torch.Tensor) -> Any:
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is):
            leaf = torch.ones((), requires_grad=True)
            loss = leaf.exp()  # what hooks of the program would be asked for: a checkpoint's runs its function again
        for _ in range(2):
            torch.autograd.grad(loss, leaf)  # the second time, torch says what it says of every history that is used up


def _as_it_is(saved: torch.Tensor) -> torch.Tensor:
    return saved


@functools.cache
def _spent_as(name: str) -> type[_Spent]:
    """The class of such steps for a name, by which autograd prints them: the name that eager's step has."""
    made: type[_Spent] = types.new_class(name, (_Spent,))
    return made


def with_spent_history(name: str, tensor: torch.Tensor, *behind: torch.Tensor) -> torch.Tensor:
    """The tensor with a history that was used up, printed by the name that eager's last step has."""
    with torch.enable_grad():
        # The empty tensor wants a gradient, so that there is a step whatever the others want.
        spent: torch.Tensor = _spent_as(name).apply(tensor, torch.empty(0, requires_grad=True), *behind)
    type(spent.grad_fn).__name__ = name
    return spent


def view_with_spent_history(name: str, tensor: torch.Tensor, *behind: torch.Tensor) -> torch.Tensor:
    """A view with a spent history: it is refused, as in eager, where a tensor may be no view (``detach_``)."""
    spent = with_spent_history(name, tensor, *behind)
    with torch.enable_grad():
        return spent.view_as(spent)
