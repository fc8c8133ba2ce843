"""Runs a case plainly and captured, in inference and in a training step, and tells whether anybody could see it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import capture
from corpus.table import Case, Inputs


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of capturing one case in one mode."""

    name: str
    mode: str
    graphs: int
    breaks: tuple[str, ...]
    left_alone: tuple[str, ...]
    recompiled: tuple[str, ...]
    difference: str
    seconds: float

    @property
    def is_whole(self) -> bool:
        return self.graphs == 1 and not self.breaks and not self.left_alone

    @property
    def is_right(self) -> bool:
        return not self.difference and not self.recompiled

    def __str__(self) -> str:
        state = "whole" if self.is_whole else f"{self.graphs} graphs, {len(self.breaks)} breaks"
        text = f"{self.name:40} {self.mode:9} {state:22} {self.seconds:6.2f} s"
        for label, found in (
            ("differs", (self.difference,) if self.difference else ()),
            ("recompiled", self.recompiled),
            ("left alone", self.left_alone),
            ("break", self.breaks),
        ):
            text += "".join(f"\n    {label}: {one}" for one in dict.fromkeys(found))
        return text


def run(case: Case, mode: str) -> Outcome:
    """A case plain and captured, called three times; ``mode`` is ``inference`` or ``training``."""
    torch.manual_seed(0)
    model = case.model().train(mode == "training")
    args, kwargs = case.inputs()
    # Two models, as calls change buffers and what a model keeps.
    plain, captured = model, copy.deepcopy(model)
    log = capture.Log()
    region = capture.optimize("eager", log=log)(captured)
    step = infer if mode == "inference" else train
    expected = step(plain, plain, copy.deepcopy((args, kwargs)))
    start = time.perf_counter()
    actual = step(region, captured, copy.deepcopy((args, kwargs)))
    seconds = time.perf_counter() - start
    first = log.records()
    difference = differs(expected, actual)
    for call in ("second", "third"):  # what a model fills on its first call makes the second another path, in eager too
        settled = log.records()
        again = step(region, captured, copy.deepcopy((args, kwargs)))
        expected_again = step(plain, plain, copy.deepcopy((args, kwargs)))
        difference = difference or differs(expected_again, again, f"{call} call")
    return Outcome(case.name, mode, *summary(first, log.records()[len(settled) :]), difference, seconds)


def summary(first: Any, later: Any) -> tuple[int, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The number of graphs, the breaks and the frames left to CPython of the first call, and what later calls compiled
    again."""
    graphs = sum(isinstance(record, capture.GraphRecord) for record in first)
    breaks = tuple(
        f"{record.location}: {record.reason.explanation}" for record in first if isinstance(record, capture.BreakRecord)
    )
    left = tuple(
        f"{record.location}: {record.reason.explanation}"
        for record in first
        if isinstance(record, capture.FallbackRecord)
    )
    # A new graph without a recompile is a frame that the first call did not come to: it counts, too.
    again = tuple(
        f"{record.location}: {getattr(record, 'failed', 'anew')}"
        for record in later
        if isinstance(record, capture.RecompileRecord | capture.GraphRecord)
    )
    return graphs, breaks, left, again


def infer(call: Callable[..., Any], model: torch.nn.Module, inputs: Inputs) -> dict[str, Any]:
    """One call without gradients, and everything that it may have changed."""
    args, kwargs = inputs
    torch.manual_seed(1)
    with torch.no_grad():
        return {"result": call(*args, **kwargs), "inputs": inputs}


def train(call: Callable[..., Any], model: torch.nn.Module, inputs: Inputs) -> dict[str, Any]:
    """One call, a loss and a backward, and everything that they may have changed."""
    args, kwargs = inputs
    model.zero_grad()
    torch.manual_seed(1)
    result = call(*args, **kwargs)
    # Every result gets a gradient, whatever the model calls a loss.
    loss = sum(found.square().mean() for found in tensors(result) if found.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {"result": result, "gradients": gradients, "buffers": dict(model.named_buffers()), "inputs": inputs}


def tensors(value: Any) -> list[torch.Tensor]:
    """The floating-point tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, Mapping):
        return [found for item in value.values() for found in tensors(item)]
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in tensors(item)]
    if hasattr(value, "__dict__") and not isinstance(value, (type, torch.nn.Module)) and not callable(value):
        return tensors(vars(value))
    return []


def differs(
    expected: Any, actual: Any, where: str = "", seen: frozenset[int] = frozenset(), tolerance: float = 0.0
) -> str:
    """A sentence about the first difference, or nothing."""
    # Results may hold themselves.
    if id(expected) in seen:
        return ""
    seen |= {id(expected)}
    if type(expected) is not type(actual):
        return f"{where} is a {type(actual).__name__} instead of a {type(expected).__name__}"
    if isinstance(expected, torch.Tensor):
        return _tensor_differs(expected, actual, where, tolerance)
    if isinstance(expected, Mapping):
        if list(expected) != list(actual):
            return f"{where} has the keys {list(actual)} instead of {list(expected)}"
        pairs = [(f"{where}[{key!r}]", expected[key], actual[key]) for key in expected]
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(actual):
            return f"{where} has {len(actual)} items instead of {len(expected)}"
        pairs = [(f"{where}[{i}]", *pair) for i, pair in enumerate(zip(expected, actual, strict=True))]
    elif hasattr(expected, "__dict__") and not isinstance(expected, (type, torch.nn.Module)) and not callable(expected):
        pairs = []
    elif isinstance(expected, (int, float, str, bool, type(None))):
        return "" if expected == actual else f"{where} is {actual!r} instead of {expected!r}"
    else:
        return ""
    # Outputs of Hugging Face's models are dicts with attributes: both are compared.
    if hasattr(expected, "__dict__"):
        return next(filter(None, (differs(*pair, seen, tolerance) for pair in _as_calls(pairs))), "") or differs(
            vars(expected), vars(actual), f"{where}.__dict__", seen, tolerance
        )
    return next(filter(None, (differs(one, other, place, seen, tolerance) for place, one, other in pairs)), "")


def _as_calls(pairs: list[tuple[str, Any, Any]]) -> list[tuple[Any, Any, str]]:
    return [(one, other, place) for place, one, other in pairs]


def _tensor_differs(expected: torch.Tensor, actual: torch.Tensor, where: str, tolerance: float) -> str:
    """Metadata first: where it differs, values say little. Without a tolerance values are equal bit by bit."""
    for name in ("dtype", "shape", "requires_grad", "device"):
        if getattr(expected, name) != getattr(actual, name):
            return f"{where}.{name} is {getattr(actual, name)} instead of {getattr(expected, name)}"
    if expected.stride() != actual.stride():
        return f"{where} has the strides {actual.stride()} instead of {expected.stride()}"
    # NaN is right where eager has one.
    one, other = torch.nan_to_num(expected.detach()), torch.nan_to_num(actual.detach())
    if torch.equal(one, other) or (tolerance and torch.allclose(one, other, tolerance, tolerance)):
        return ""
    return f"{where} is off by {(expected - actual).abs().max().item():.3g}"
