"""Whole training steps: forward, loss, backward and optimizer in one compiled function, three times, as eager has them.

Everything that somebody could see afterwards is compared: the loss, parameters, buffers, gradients and which of
them are None, the optimizer's state, what the model keeps, its inputs, and the state of the random numbers.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from search.judge import Difference, differ
from search.observed import Sight, observe
from search.runner import compiler
from torch.utils import _pytree as pytree

import capture
from corpus.runner import Outcome, summary, tensors
from corpus.table import Case, Inputs

STEPS = 3
Step = Callable[..., torch.Tensor]


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, inputs: Inputs) -> torch.Tensor:
    """One step, as training loops have it."""
    args, kwargs = inputs
    optimizer.zero_grad()
    result = model(*args, **kwargs)
    loss = sum(found.square().mean() for found in tensors(result) if found.requires_grad)
    loss.backward()
    optimizer.step()
    return loss


class Training:
    """A model, its optimizer and its inputs, trained by a step that may be compiled."""

    def __init__(self, model: torch.nn.Module, inputs: Inputs, one_step: Step) -> None:
        self.model, self.inputs, self.one_step = model, inputs, one_step
        # A large epsilon: where a gradient is as small as its rounding, Adam's quotient would make that the whole step.
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)

    def once(self, index: int) -> Sequence[Sight]:
        """One step, and everything that somebody could see afterwards."""
        torch.manual_seed(index)
        inputs = copy.deepcopy(self.inputs)
        try:
            world: dict[str, Any] = {"loss": self.one_step(self.model, self.optimizer, inputs)}
        except Exception as error:  # noqa: BLE001 - eager's exception is to be ours as well
            world = {"raised": error}
        return observe(**world, model=self.model, optimizer=self.optimizer, inputs=inputs, random=torch.get_rng_state())


def run(case: Case, backend: str = "eager") -> Outcome:
    """The steps in eager and compiled, compared one by one."""
    torch.manual_seed(0)
    model = case.model().train()
    inputs = case.inputs()
    log = capture.Log()
    capture.reset()
    # For the float64 run, which starts anew from the same weights.
    first = copy.deepcopy(model)
    plain = Training(copy.deepcopy(model), inputs, step)
    ours = Training(model, inputs, compiler(backend, log)(step))
    difference, settled, seconds = "", (), 0.0
    for index in range(STEPS):
        expected = plain.once(index)
        start = time.perf_counter()
        actual = ours.once(index)
        seconds = seconds or time.perf_counter() - start
        # The first step's graphs; later steps compile again where the optimizer's state has come.
        settled = settled or log.records()
        found = differ(expected, actual, partial(in_float64, first, inputs, index + 1))
        if found is not None:
            difference = _told(found, index)
            break
    return Outcome(case.name, "step", *summary(settled, ()), difference, seconds)


def _told(found: Difference, index: int) -> str:
    return f"step {index + 1}: {found}"[:500]


def in_float64(model: torch.nn.Module, inputs: Inputs, steps: int) -> Sequence[Sight] | None:
    """The same steps in double precision, or nothing where the model insists on another."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        training = Training(copy.deepcopy(model).double(), pytree.tree_map(_double, copy.deepcopy(inputs)), step)
        return [training.once(index) for index in range(steps)][-1]
    except Exception:  # noqa: BLE001 - it judges nothing then
        return None
    finally:
        torch.set_default_dtype(default)


def _double(leaf: Any) -> Any:
    return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf
