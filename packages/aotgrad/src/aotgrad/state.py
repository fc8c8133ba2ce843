"""The process-wide state of this package: one object, whose fields tests may replace for a while."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch

from aotgrad.torch_versions import OpOverload
from aotgrad.traced_generator import TracedGenerator


def _unlikely_seeds() -> Iterator[int]:
    """Seeds that nobody would choose, a range of them for each trace."""
    return itertools.count(0x6A09E667F3BC0000, 1 << 24)


@dataclass(slots=True)
class State:
    """The only state of the package; everything else is an argument, or kept by a function that would answer the same
    again."""

    source_numbers: Iterator[int] = field(default_factory=itertools.count)
    """The numbers in the file names of generated code."""

    seeds: Iterator[int] = field(default_factory=_unlikely_seeds)
    """The seeds that count the draws of programs while they are traced."""

    generator: TracedGenerator = field(default_factory=TracedGenerator)
    """The object in the place of the default generator while programs are traced."""

    defining_operators: threading.Lock = field(default_factory=threading.Lock)
    """Held while operators are defined: torch knows an operator once, and those of recurrent networks, and twins of
    custom ones, are defined when the first is met."""

    originals_of_twins: dict[OpOverload, OpOverload] = field(default_factory=dict)
    """The custom operator that each functional twin was defined for (``recording.custom_ops``)."""

    dropout_of_cudnn: dict[torch.device, tuple[torch.Tensor, torch.cuda.Event]] = field(default_factory=dict)
    """The random state that cuDNN's networks on a device draw from, and the event after which the last of them has
    drawn."""

    saved_names: WeakKeyDictionary[type, tuple[str, ...]] = field(default_factory=WeakKeyDictionary)
    """The attributes in which autograd nodes of a class save tensors: looked for once, and forgotten with the class."""


STATE = State()
