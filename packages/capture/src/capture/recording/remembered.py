"""The results of operators on fakes, kept while a graph is recorded, as layers of a model ask for the same.

A fake kernel takes ten times as long as it takes to make tensors like those that it gave before.  This is below
autograd, which makes a history anew each time, and holds only for operators that write nothing: their results are new,
or lie in the memory of an operand.

Must not know: what an operator is to the program, or what its journal does with the effects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from capture.torch_versions import (
    DisableTorchDispatch,
    FakeTensor,
    FakeTensorMode,
    OpOverload,
    cdata_of,
    is_any_autocast_enabled,
    make_subclass,
    schema_of,
    set_throw_on_mutable_data_ptr,
)

_CONSTANTS = frozenset(
    (int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
)
_OF_TORCH = ("aten", "prims")
_DEVICES = ("cpu", "cuda")  # those that autocast is asked about


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of an operator, and of those that its fake kernel is made of, on the journal; and its draws."""

    doubts: int
    raisers: int
    raises: bool
    doubtful: bool
    draws: int


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor of a result."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    operand: int | None  # the number of the one in whose memory it lies
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an operator, as far as it takes to make the like of it, with its effects."""

    parts: tuple[Part | None, ...]
    made: type | None  # of several results
    effects: Effects
    work: int


class Call:
    """An operator on operands, by all that its result depends on."""

    __slots__ = ("key", "outcome", "tensors")

    def __init__(self, key: tuple[object, ...], tensors: list[object], outcome: Outcome | None) -> None:
        self.key = key
        self.tensors = tensors
        self.outcome = outcome


class Remembered:
    """The results that the operators of one graph gave."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._outcomes: dict[tuple[Any, ...], Outcome | None] = {}
        self._operators: dict[int, tuple[Any, bool]] = {}  # by identity: they hash in Python
        self._wanted = bool(make_subclass and set_throw_on_mutable_data_ptr)

    def call(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, object]) -> Call | None:
        """The call by its key, with what it gave before; None where nothing is remembered of such a call."""
        known = self._operators.get(id(func))
        if known is None:
            known = self._operators[id(func)] = func, self._wanted and _is_plain(func)
        if not known[1]:
            return None
        tensors: list[Any] = []
        # All modes that a fake kernel may look at.
        key = [id(func), torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()]
        if is_any_autocast_enabled():
            key += [(torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in _DEVICES]
        if not self._describe(args, key, tensors):
            return None
        if kwargs:
            key += kwargs
            if not self._describe(kwargs.values(), key, tensors):
                return None
        whole = tuple(key)
        if whole not in self._outcomes:
            return Call(whole, tensors, None)
        outcome = self._outcomes[whole]
        return None if outcome is None else Call(whole, tensors, outcome)

    def _describe(self, operands: Any, key: list[Any], tensors: list[Any]) -> bool:
        """Adds what an operator can tell of its operands; False where that is not all."""
        for each in operands:
            cls = type(each)
            if cls is FakeTensor:
                if each.fake_mode is not self._mode or each.constant is not None or each.layout is not torch.strided:
                    return False
                if each._is_zerotensor():  # has no memory
                    return False
                tensors.append(each)
                key += (
                    *(each.dtype, each.shape, each.stride(), each.storage_offset(), each.fake_device),
                    *(each.requires_grad, each.is_inference(), each.is_conj(), each.is_neg()),
                    each.untyped_storage().nbytes(),
                )
            elif cls in _CONSTANTS:
                key += (cls, each)
            elif cls is list or cls is tuple:
                key += (cls, len(each))
                if not self._describe(each, key, tensors):
                    return False
            else:
                return False
        return True

    def keep(self, call: Call, result: Any, effects: Effects | None, work: int) -> None:
        """Keeps the result of a call.

        Without ``effects`` the operator did what cannot be told again, and runs each time.
        """
        several = type(result) in (tuple, list)
        given = list(result) if several else [result]
        parts = None if effects is None else self.parts_of(call.tensors, given)
        if effects is None or parts is None:
            self._outcomes[call.key] = None
        else:
            self._outcomes[call.key] = Outcome(tuple(parts), type(result) if several else None, effects, work)

    def parts_of(self, operands: list[Any], given: list[Any]) -> list[Part | None] | None:
        """The parts of a result; None where it is not made of new tensors and of views of one operand each."""
        memories = [cdata_of(operand.untyped_storage()) for operand in operands]
        parts: list[Part | None] = []
        for each in given:
            if each is None:
                parts.append(None)
                continue
            if not self._is_like_others(each) or any(each is operand for operand in operands):
                return None
            memory = cdata_of(each.untyped_storage())
            if memories.count(memory) > 1:
                return None
            place = memories.index(memory) if memory in memories else None
            if place is None:
                memories.append(memory)  # of two results in one memory, the second is refused by its number
            elif place >= len(operands):
                return None
            part = _part_of(each, place)
            if place is None and each.untyped_storage().nbytes() != _bytes_of(part):
                return None
            parts.append(part)
        return parts

    def _is_like_others(self, result: Any) -> bool:
        """True if the tensor has nothing but what its part says."""
        return (
            type(result) is FakeTensor
            and result.fake_mode is self._mode
            and result.layout is torch.strided
            and not (result.requires_grad or result.is_conj() or result.is_neg() or result.is_quantized)
            and not result._is_zerotensor()
            and result.is_inference() is torch.is_inference_mode_enabled()
            and all(
                held is None or held is self._mode or isinstance(held, torch.device) for held in vars(result).values()
            )
        )

    def again(self, outcome: Outcome, operands: list[object]) -> Any:
        """Tensors like those that the operator gave."""
        made = [None if part is None else made_again(part, operands) for part in outcome.parts]
        return made[0] if outcome.made is None else outcome.made(made)


def _is_plain(func: object) -> bool:
    """True for an operator of torch's that writes nothing."""
    return isinstance(func, OpOverload) and func.namespace in _OF_TORCH and not schema_of(func).is_mutable


def _part_of(tensor: Any, place: int | None) -> Part:
    layout = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    return Part(*layout, tensor.dtype, tensor.fake_device, place, dict(vars(tensor)))


def _bytes_of(part: Part) -> int:
    """The size of the memory that is made for it; -1 where it would not begin at its start."""
    if part.offset or 0 in part.size:
        return -1 if part.offset else 0
    last = sum((size - 1) * stride for size, stride in zip(part.size, part.stride, strict=True))
    return (last + 1) * part.dtype.itemsize


def made_again(part: Part, operands: Sequence[object]) -> torch.Tensor:
    """A tensor like the one that an operator gave."""
    with DisableTorchDispatch():
        made: torch.Tensor = _made(part, operands)
    return made


def _made(part: Part, operands: Sequence[Any]) -> Any:
    if part.operand is None:
        shell = torch.empty_strided(part.size, part.stride, dtype=part.dtype, device="meta")
    else:
        shell = torch.empty(0, dtype=part.dtype, device="meta")
        shell.set_(operands[part.operand].untyped_storage(), part.offset, part.size, part.stride)
    # What FakeTensor's own constructor does, which looks at each argument for longer than all of this takes.
    fake = make_subclass(FakeTensor, shell, False, dispatch_device=True, device_for_backend_keys=part.device)
    set_throw_on_mutable_data_ptr(fake)
    vars(fake).update(part.attributes)
    return fake
