"""Programs over tensor subclasses as programs over the plain tensors within, and their calls back again.

Must not know: stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from aotgrad.calling.wrapper import Call
from aotgrad.errors import Unsupported
from aotgrad.recording.recorder import Opened, Recorder
from aotgrad.tensors import functional
from aotgrad.tensors.subclasses import (
    Close,
    Open,
    SubclassDispatch,
    Wrapping,
    count,
    unwrap,
    unwrap_all,
    wrap_all,
    wrapped_positions,
)
from aotgrad.tracing.inputs import Signature
from aotgrad.tracing.joint import BoundProgram


class PackedProgram:
    """A program that takes and returns plain tensors, while `program` sees the objects around them."""

    def __init__(self, program: BoundProgram, wrappings: Sequence[Wrapping | None]) -> None:
        self._program = program
        self.wrappings = wrappings
        self.returned: list[Wrapping | int | None] = []  # an integer: the caller's own object at that position
        self.gradients: dict[int, Opened] = {}

    def __call__(self, recorder: Recorder, args: Sequence[object]) -> Sequence[Any]:
        # In force until all is traced: backward sees the objects, too.
        recorder.until_traced.enter_context(SubclassDispatch())
        recorder.until_traced.enter_context(functional.hidden())
        values = wrap_all(self.wrappings, args)
        self.gradients = {}
        for index, wrapping in enumerate(self.wrappings):
            if wrapping is not None and wrapping.requires_grad:
                self.gradients[index] = Opened(values[index].requires_grad_(), unwrap(values[index])[1])
        recorder.opened_leaves = list(self.gradients.values())
        outputs = self._program(recorder, values)
        self._refuse_changes(values)
        return self._open(recorder, outputs, values)

    def _refuse_changes(self, values: Sequence[Any]) -> None:
        """Refuses objects that the program has changed where autograd follows them."""
        for wrapping, value in zip(self.wrappings, values, strict=True):
            if wrapping is None:
                continue
            written = any(map(functional.data_mutated, unwrap(value)[1]))
            if value.requires_grad != wrapping.requires_grad or (
                written and value.requires_grad and torch.is_grad_enabled()
            ):
                raise Unsupported("a tensor subclass is changed in place under autograd", "change it under no_grad")

    def _open(self, recorder: Recorder, outputs: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        own = {id(value): index for index, value in enumerate(values) if self.wrappings[index] is not None}
        self.returned, kept = [], []
        for output in outputs:
            wrapping, inner = unwrap(output) if isinstance(output, torch.Tensor) else (None, [output])
            # The caller gets its own object back, whatever it wraps.
            if id(output) in own:
                self.returned.append(own[id(output)])
                continue
            self.returned.append(wrapping)
            kept += inner
            if wrapping is not None and wrapping.requires_grad:
                recorder.opened_results.append(Opened(output, inner))
        return kept


def open_arguments(args: Sequence[object], *, dynamic: bool) -> tuple[tuple[Wrapping | None, ...], list[Any]]:
    """The wrapping of each argument, and the plain values within."""
    wrappings, flat = unwrap_all(args)
    if dynamic and any(wrappings):
        raise Unsupported("a tensor subclass has no varying sizes", "compile without dynamic, or run it eagerly")
    return wrappings, flat


def with_wrappings(signature: Signature, wrappings: Sequence[Wrapping | None]) -> Signature:
    """A copy of the signature, where tensors within an object want gradients if the object does."""
    within = list(wrapped_positions(wrappings))
    # One graph input would stand for parts of two objects, and its gradient for both.
    if signature.duplicates and any(within[position] for position, _ in signature.duplicates):
        raise Unsupported("two tensor subclass objects hold the same tensor", "pass copies")
    inputs = [
        entry if found is None else replace(entry, requires_grad=found[1], within=True)
        for entry in signature.inputs
        for found in (within[entry.position],)
    ]
    return replace(signature, inputs=tuple(inputs))


def packed_call(call: Call, program: PackedProgram, *, training: bool) -> Call:
    """`call` as a function of the caller's objects."""
    gradients = {index: opened.gradient for index, opened in program.gradients.items()} if training else {}
    wrappings, returned = tuple(program.wrappings), tuple(program.returned)

    def packed(*values: object) -> list[Any]:
        flat: list[Any] = []
        for index, (wrapping, value) in enumerate(zip(wrappings, values, strict=True)):
            # Under autograd, so that gradients of the tensors within become one of the object.
            if index in gradients:
                flat += Open.apply(value, gradients[index])
            else:
                flat += [value] if wrapping is None else unwrap(value)[1]
        results = iter(call(*flat))
        return [_closed(each, results, values) for each in returned]

    return packed


def _closed(each: Wrapping | int | None, results: Any, values: Sequence[Any]) -> Any:
    if isinstance(each, int):
        return values[each]
    if each is None:
        return next(results)
    if each.requires_grad:
        return Close.apply(each, *(next(results) for _ in range(count(each))))
    return each.build(results)
