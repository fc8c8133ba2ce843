"""The world as the evaluator sees it: what opcodes, rules and wrapping ask of the machine.

Three protocols, each with what the one below it knows nothing of: values ask a ``Tracer``, recording a ``Recording``,
and the evaluator a ``World``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from capture.bytecode.instructions import Instruction
from capture.errors import UserRaised
from capture.evaluator.frame import Frame
from capture.guards.layouts import OpenLayout
from capture.guards.sources import Source
from capture.recording.world import Recording
from capture.values.base import Value
from capture.values.function import NamespaceValue
from capture.values.identity import SearchedKeys


class World(Recording, Protocol):
    """A recording with frames and with what is assumed of the program."""

    @property
    def frames(self) -> list[Frame]:
        """Those that are being evaluated, each called by the one before; the root first."""

    @property
    def keys(self) -> SearchedKeys: ...

    @property
    def leaves(self) -> list[torch.Tensor]:
        """Fake tensors that were made within the graph, with a gradient of their own."""

    @property
    def state_read(self) -> dict[str, Callable[[], Any]]:
        """Settings of torch's that were read, by name: what they were at the beginning is relied on."""

    # -- wrapping ------------------------------------------------------------------------------------------------

    def open_layout(self, source: Source, tensor: torch.Tensor) -> OpenLayout:
        """The dimensions of a tensor input that are to be symbolic."""

    def is_dynamic(self, source: Source) -> bool:
        """Whether an int input is to be symbolic."""

    def varies(self, source: Source) -> bool:
        """Whether a float is known to differ from call to call."""

    def namespace(self, contents: dict[str, Any], source: Source | None, *, trusted: bool) -> NamespaceValue:
        """The one value of a module's globals."""

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, frame: Frame) -> Value | None:
        """Step an inner frame up to its return or its next suspension."""

    def unwind(self, frame: Frame, instruction: Instruction, raised: UserRaised) -> None:
        """Go to the handler of an instruction, or out of the frame."""
