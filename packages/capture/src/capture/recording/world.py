"""The protocol by which recording asks the evaluation that it serves."""

from __future__ import annotations

from typing import Protocol

import torch

from capture.recording.graph import GraphRecorder
from capture.values.base import Tracer, Value
from capture.values.effects import Effects
from capture.values.tensor import TensorValue


class Recording(Tracer, Protocol):
    """A tracer with the graph, the effects, and the value that stands for each fake tensor."""

    @property
    def graph(self) -> GraphRecorder: ...

    @property
    def effects(self) -> Effects: ...

    @property
    def tensors(self) -> dict[int, TensorValue]:
        """The values of tensors by the ``id`` of the fake tensor."""

    def fixed_sizes(self) -> int:
        """The number of times that something took what varies for a constant; 0 where nothing varies."""

    def made_leaf(self, fake: torch.Tensor) -> None:
        """Notes a tensor that is the first of its history; stops where such are to be made outside of the graph."""

    def need_symbols(self) -> None:
        """Restarts the evaluation with symbols for data-dependent sizes, unless there are some or they are not
        wanted."""

    def expect(self, value: Value, truth: bool) -> bool:
        """Goes on as if this were the truth of a data-dependent value; False where that cannot be done."""
