"""The answers of tensors about themselves beyond what every graph relies on.

These are whether they are views, conjugated, made in inference mode, and where in their memory they begin.  Hardly
anything that is computed depends on these, so they are relied on only where the program asks.  A tensor made here
answers as its fake does, which follows from the answers of the inputs whose memory it shares.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import FunctionType

import torch

from capture.guards.kinds import GuardKind
from capture.guards.sources import Inputs, Source
from capture.reasons import Kind
from capture.recording.graph import memory_of
from capture.recording.world import Recording
from capture.torch_versions import enter_inference_mode
from capture.values.base import Tracer, Value
from capture.values.tensor import TensorValue

QUESTIONS = frozenset({"storage_offset", "is_conj", "is_neg", "is_inference", "_is_view", "_is_zerotensor"})
_COUNT_FROM_THE_START = frozenset({"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"})
_COPY_ALL_MEMORY = frozenset({"as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter"})
"""Operations whose results begin where their operand does, in a copy of all that its memory holds."""


def answer_of(ctx: Recording, tensor: TensorValue, name: str) -> object:
    """The answer, relied on from now on."""
    related = [tensor] if name == "_is_view" else _inputs_in_the_same_memory(ctx, tensor)
    given = [value for value in related if value.source is not None]
    for value in given:
        _rely(ctx, value, name)
    if tensor.source is not None:
        return getattr(tensor.obj, name)()
    if name == "is_inference" and given:  # views of such tensors are such tensors; fakes are not
        return given[0].obj.is_inference()
    if name == "_is_view" and answer_of(ctx, tensor, "is_inference"):  # torch keeps no account of them
        return False
    return getattr(tensor.fake, name)()


def rely_on_where_it_begins(ctx: Recording, operation: str, operands: Sequence[Value]) -> None:
    """Relies on where inputs begin in their memory, for operations that count from its start.

    A kernel that is given a tensor knows nothing of that memory.
    """
    operation = operation.partition(".")[0]  # of an overload
    copies = operation in _COPY_ALL_MEMORY
    if (copies or operation in _COUNT_FROM_THE_START) and operands and isinstance(operands[0], TensorValue):
        for value in _inputs_in_the_same_memory(ctx, operands[0]):
            _rely(ctx, value, "storage_offset")
            if copies:
                _rely_on_what_is_beside(ctx, value)


def rely_on_who_may_write(ctx: Recording) -> None:
    """Relies on which written inputs were made in inference mode, where a graph switches that mode.

    Backends may write inputs back outside of the mode, where torch lets nobody write to what was made within.
    """
    if not any(node.target is enter_inference_mode for node in ctx.graph.nodes):
        return
    for value in ctx.tensors.values():
        if value.source is not None and memory_of(value.fake) in ctx.graph.mode.journal.written:
            _rely(ctx, value, "is_inference")


def _inputs_in_the_same_memory(ctx: Recording, tensor: TensorValue) -> list[TensorValue]:
    """The inputs over the memory of a tensor, which may be one of them or made of one."""
    memory = memory_of(tensor.fake)
    given = [value for node in ctx.graph.inputs.values() if (value := ctx.tensors.get(id(node.meta["val"])))]
    return [value for value in given if value.source is not None and memory_of(value.fake) == memory]


def _rely(ctx: Tracer, value: TensorValue, name: str) -> None:
    """Guards the answer by a relation, as it is a method's and on no path."""
    assert value.source is not None
    answer = getattr(value.obj, name)()
    text = f"`{name}()` of {value.source.expression()} is {answer}"
    ctx.guard(None, GuardKind.RELATION, (), None, functools.partial(_is_answer, value.source, name, answer), text=text)


def _rely_on_what_is_beside(ctx: Tracer, value: TensorValue) -> None:
    """Guards how much memory an input has beside its elements; a fake of sizes that vary may not know of it."""
    assert value.source is not None
    beside = _beside(value.obj)
    told = value.fake.untyped_storage().nbytes()
    if (told.node.hint if isinstance(told, torch.SymInt) else told) != value.obj.untyped_storage().nbytes():
        text = f"the memory around {value.describe()}, whose sizes vary, is copied"
        ctx.stop(Kind.DYNAMIC_SIZE, text, "it runs as in eager; the rest of the function is captured")
    text = f"memory of {value.source.expression()} has {beside} bytes beside its elements"
    ctx.guard(None, GuardKind.RELATION, (), None, functools.partial(_has_beside, value.source, beside), text=text)


def _beside(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() - tensor.numel() * tensor.element_size()


def _has_beside(source: Source, beside: int, function: FunctionType, *args: object) -> bool:
    tensor: torch.Tensor = source.read(Inputs(function, args))
    return _beside(tensor) == beside


def _is_answer(source: Source, name: str, answer: object, function: FunctionType, *args: object) -> bool:
    tensor: torch.Tensor = source.read(Inputs(function, args))
    return bool(getattr(tensor, name)() == answer)
