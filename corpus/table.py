"""The table of cases, which the families fill, and the case itself."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """An architecture: a function that makes a small one of it, and one that makes its inputs."""

    name: str
    family: str
    model: Callable[[], torch.nn.Module]
    inputs: Callable[[], Inputs]
    trains: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)


CASES: dict[str, Case] = {}


def add(case: Case) -> None:
    """Names are what runs are recorded by: two alike would hide one another."""
    if case.name in CASES:
        raise ValueError(f"two cases are called {case.name}")
    CASES[case.name] = case


def is_installed(*modules: str) -> bool:
    """Looks for the modules without importing them: transformers alone takes seconds."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def image(size: int = 64, batch: int = 2, channels: int = 3) -> Callable[[], Inputs]:
    """A batch of images; two in it, since batch norm needs more than one value of a channel."""
    return lambda: ((torch.randn(batch, channels, size, size),), {})


def tokens(vocabulary: int = 99, length: int = 11, batch: int = 2, **more: Any) -> Callable[[], Inputs]:
    """Ids of tokens with a mask whose last positions are padding in one row."""

    def make() -> Inputs:
        ids = torch.randint(3, vocabulary, (batch, length))
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[0, length - 3 :] = 0
        return (), {"input_ids": ids, "attention_mask": mask, **more}

    return make
