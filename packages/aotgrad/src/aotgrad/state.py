"""What a process has one of in this package: one object, whose fields tests may replace for a while."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch

from aotgrad.traced_generator import TracedGenerator


def _unlikely_seeds() -> Iterator[int]:
    """Seeds that nobody would choose, a range of them for each trace."""
    return itertools.count(0x6A09E667F3BC0000, 1 << 24)


@dataclass(slots=True)
class State:
    """Everything else is passed as an argument, or is what a function would answer again."""

    source_numbers: Iterator[int] = field(default_factory=itertools.count)
    """The files that generated code is said to be from are named by them."""

    seeds: Iterator[int] = field(default_factory=_unlikely_seeds)

    generator: TracedGenerator = field(default_factory=TracedGenerator)

    defining_operators: threading.Lock = field(default_factory=threading.Lock)
    """Torch knows an operator once: those of recurrent networks are defined when the first network is met."""

    dropout_of_cudnn: dict[torch.device, tuple[torch.Tensor, torch.cuda.Event]] = field(default_factory=dict)
    """What cuDNN's networks on a device draw from, and when the last one of them had drawn."""

    saved_names: WeakKeyDictionary[type, tuple[str, ...]] = field(default_factory=WeakKeyDictionary)
    """What nodes of a kind save: looked for once, and forgotten with a class of the program's."""


STATE = State()
