"""A case: something to compile, and what one measured call of it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

Call: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Program:
    """``run(call)`` is what is timed, with ``function`` or its compiled form for ``call``; it returns tensors to
    compare.  ``training`` where gradients are on."""

    function: Call
    run: Callable[[Call], Any]
    training: bool = False


Case: TypeAlias = Callable[[str], Program]

CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Puts a case into the table; it is given the device."""
    CASES[function.__name__] = function
    return function


def inference(function: Call, *inputs: Any, **named: Any) -> Program:
    """One call is one measured turn; gradients are off then."""
    return Program(function, lambda call: call(*inputs, **named))


def training(model: torch.nn.Module, *inputs: Any, **named: Any) -> Program:
    """Forward and backward with a loss of one line."""

    def step(call: Call) -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        loss = first_tensor(call(*inputs, **named)).float().square().mean()
        loss.backward()
        return loss.detach()

    return Program(model, step, training=True)


def first_tensor(result: Any) -> torch.Tensor:
    """The result that a loss is made of, where a model gives several."""
    found: torch.Tensor = result if isinstance(result, torch.Tensor) else result[0]
    return found
