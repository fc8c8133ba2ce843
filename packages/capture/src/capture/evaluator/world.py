"""The world as the evaluator sees it: what opcodes, rules and wrapping ask of the machine.

Three protocols, each with what the one below it knows nothing of: values ask a ``Tracer``, recording a ``Recording``,
and the evaluator a ``World``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol

import torch

from capture.bytecode.instructions import Instruction
from capture.errors import Location, UserRaised
from capture.evaluator.assumptions import Assumptions, Place
from capture.evaluator.frame import Frame
from capture.guards.layouts import OpenLayout
from capture.guards.sources import Source
from capture.reasons import Kind, Reason
from capture.recording.world import Recording
from capture.values.base import Value
from capture.values.function import FunctionValue, NamespaceValue
from capture.values.identity import SearchedKeys
from capture.values.mapping import DictValue


class World(Recording, Protocol):
    """A recording with frames and with what is assumed of the program."""

    @property
    def frames(self) -> list[Frame]:
        """The frames that are being evaluated, each called by the one before; the root first."""

    @property
    def root(self) -> Frame:
        """The frame of the user's that is captured."""

    @property
    def assumptions(self) -> Assumptions:
        """The facts that are known ahead of this evaluation."""

    @property
    def keys(self) -> SearchedKeys: ...

    @property
    def leaves(self) -> list[torch.Tensor]:
        """Fake tensors that were made within the graph, with a gradient of their own."""

    @property
    def state_read(self) -> dict[str, Callable[[], object]]:
        """Settings of torch's that were read, by name: what they were at the beginning is relied on."""

    # -- wrapping ------------------------------------------------------------------------------------------------

    def open_layout(self, source: Source, tensor: torch.Tensor) -> OpenLayout:
        """The dimensions of a tensor input that are to be symbolic."""

    def is_dynamic(self, source: Source) -> bool:
        """True if an int input is to be symbolic."""

    def is_dynamic_float(self, source: Source) -> bool:
        """True if a float is known to differ from call to call."""

    def namespace(self, contents: dict[str, Any], source: Source | None, *, trusted: bool) -> NamespaceValue:
        """The one value of a module's globals."""

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, frame: Frame) -> Value | None:
        """Step an inner frame up to its return or its next suspension."""

    def unwind(self, frame: Frame, instruction: Instruction, raised: UserRaised) -> None:
        """Go to the handler of an instruction, or out of the frame."""

    def run_class_body(self, function: FunctionValue, names: DictValue) -> Value:
        """Evaluate the body of a class statement, which fills a namespace."""

    def rehearsal(self, given: Sequence[Value]) -> AbstractContextManager[None]:
        """Evaluate a call of these without a trace: what is recorded is forgotten, changes of older objects stop."""

    def repeatable(self, given: Sequence[Value]) -> AbstractContextManager[None]:
        """Evaluate a call of these as one of several: changes of older objects and tensors stop."""

    def region(self, passed: Sequence[Value], options: Mapping[str, object]) -> AbstractContextManager[None]:
        """Has what is recorded meanwhile called by a checkpoint, with what the program passes and these options.

        Changes of older objects stop.
        """

    # -- asking --------------------------------------------------------------------------------------------------

    def decide(self, value: Value) -> bool | None:
        """The truth of a tensor that follows simply from arguments, relied on from now on; None for other tensors."""

    def local_variables(self) -> dict[str, Value]:
        """The bound variables of the innermost frame, in the order in which Python lists them."""

    def handled(self) -> Value | None:
        """The exception that is being handled, here or by the caller of the evaluated frame."""

    def handled_here(self) -> Value | None:
        """The exception that is being handled in the evaluated code."""

    # -- stopping ------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Notes that the step that is evaluated cannot be taken back."""

    def stop_before(self, value: Value, kind: Kind, explanation: str, hint: str = "") -> NoReturn:
        """Breaks the graph where this came into being, which is known: CPython has to make it."""

    def stop_at(self, place: Place, reason: Reason, location: Location) -> NoReturn:
        """Break at an earlier instruction of the root, of which ``place`` tells the journal."""

    def keep_leaves_outside(self) -> NoReturn:
        """Restarts the evaluation with CPython making the tensors of this frame that want a gradient of their own."""

    def leave_frame(self, kind: Kind, explanation: str) -> NoReturn:
        """Leave the innermost frame to CPython: it must be the one that the user wrote."""
