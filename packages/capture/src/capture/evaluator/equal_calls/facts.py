"""Facts about objects and tensors that evaluation may have gone by: of two equal calls they are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

import torch

from capture._engine import are_interchangeable
from capture.evaluator.equal_calls.paths import MISSING, PLAIN_DICTS, Refused
from capture.guards.kinds import GuardKind
from capture.torch_versions import version_of
from capture.values.base import Value
from capture.values.constant import ConstantValue

_OF_PLAIN_TRUTH = (bool, int, str, bytes, NoneType, float, *PLAIN_DICTS, list, tuple)
_OF_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_SIMPLE = (bool, int, str, bytes, NoneType, float, complex, range, frozenset, tuple, *_OF_TORCH)


def same_constant(left: object, right: object) -> bool:
    """True for constants that a guard of the engine takes for one another: of one type and content all through."""
    return left is right or (type(left) in _SIMPLE and are_interchangeable(left, right))


def _has_keys(obj: Any, wanted: Any) -> bool:
    return type(obj) in PLAIN_DICTS and are_interchangeable(tuple(obj), wanted)


def _has_none_under(obj: object, names: Any) -> bool:
    return type(obj) in PLAIN_DICTS and not any(obj.get(name) for name in names)  # type: ignore[attr-defined]


_CHECKS: dict[GuardKind, Callable[[Any, Any], bool]] = {
    GuardKind.TYPE: lambda obj, wanted: type(obj) is wanted,
    GuardKind.IS: lambda obj, wanted: obj is wanted,
    GuardKind.EQUALS: same_constant,
    GuardKind.LENGTH: lambda obj, wanted: type(obj) in (list, tuple, *PLAIN_DICTS) and len(obj) == wanted,
    GuardKind.KEYS: _has_keys,
    GuardKind.EMPTY: _has_none_under,
    GuardKind.TRUE: lambda obj, _: type(obj) in _OF_PLAIN_TRUTH and bool(obj),
    GuardKind.FALSE: lambda obj, _: type(obj) in _OF_PLAIN_TRUTH and not obj,
}


def holds(kind: GuardKind, payload: tuple[Any, ...], obj: object) -> bool:
    """True if a guard would let this object pass; refuses where that is not known here."""
    if kind is GuardKind.ABSENT:
        return obj is MISSING
    if kind not in _CHECKS:
        raise Refused
    return obj is not MISSING and _CHECKS[kind](obj, payload[0] if payload else None)


def of_input(tensor: torch.Tensor) -> tuple[object, ...]:
    """All that evaluation may see of a parameter or buffer but its data."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or tensor.layout is not torch.strided:
        raise Refused
    if not tensor.is_leaf or tensor.is_inference() or tensor._is_view() or tensor.grad_fn is not None:
        raise Refused
    return (type(tensor), tuple(vars(tensor)), *_layout(tensor))


def of_fake(fake: torch.Tensor) -> tuple[object, ...]:
    """All that evaluation may see of a tensor that was computed in the graph."""
    if fake.layout is not torch.strided:
        raise Refused
    try:
        step = type(fake.grad_fn)
    except RuntimeError:  # a view that torch can tell nothing more of
        raise Refused from None
    version = -1 if fake.is_inference() else version_of(fake)
    return (step, fake.is_leaf, fake._is_view(), fake.is_inference(), version, *_layout(fake))


def of_writes(written: Mapping[str, Value]) -> tuple[object, ...]:
    """The attributes of a tensor that the frame wrote, which its value keeps."""
    if not all(type(value) is ConstantValue for value in written.values()):
        raise Refused
    constants = ((name, value) for name, value in written.items() if isinstance(value, ConstantValue))
    return tuple((name, type(value.value), repr(value.value)) for name, value in constants)


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    shape, strides = tuple(tensor.shape), tensor.stride()
    bits = tensor.is_conj(), tensor.is_neg()
    return tensor.dtype, tensor.device, shape, strides, tensor.storage_offset(), tensor.requires_grad, *bits
