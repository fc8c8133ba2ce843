"""Special methods of the program's own on objects that are known otherwise: members of enums, classes, modules.

What such a method answers may be another thing at the next call, and it may have effects: what asks it is not folded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

import torch

from capture.values.base import held_by, trusted

_OF_TENSORS = type(torch.Tensor)
_PLAIN = frozenset({int, float, bool, complex, str, bytes, type(None), slice, range})
_EQUALITY = ("__eq__", "__ne__")
_ORDER = ("__lt__", "__gt__", "__le__", "__ge__")
_TRUTH = ("__bool__", "__len__")
_TEXT = ("__str__", "__repr__", "__format__")
# The special methods that each function asks of its operands; of one that is not listed they follow from its name.
_ASKED: Mapping[object, tuple[str, ...]] = {
    operator.contains: ("__contains__", "__iter__", "__getitem__", *_EQUALITY),
    operator.getitem: ("__getitem__", "__class_getitem__", "__index__", "__hash__", *_EQUALITY),
    operator.index: ("__index__",),
    **dict.fromkeys((operator.truth, operator.not_, bool, any, all), _TRUTH),
    len: ("__len__",), hash: ("__hash__",), str: _TEXT, repr: _TEXT, format: _TEXT, ascii: _TEXT,
    int: ("__int__", "__index__", "__trunc__"), float: ("__float__", "__index__"),
    complex: ("__complex__", "__float__", "__index__"), round: ("__round__",), divmod: ("__divmod__", "__rdivmod__"),
    min: _ORDER, max: _ORDER, sorted: _ORDER, sum: ("__add__", "__radd__"), iter: ("__iter__", "__getitem__"),
    **dict.fromkeys((operator.eq, operator.ne), _EQUALITY),
    **dict.fromkeys((operator.lt, operator.le, operator.gt, operator.ge), (*_ORDER, *_EQUALITY)),
    **dict.fromkeys((list.index, list.count, list.remove, tuple.index, tuple.count), _EQUALITY),
}  # fmt: skip


def asked_method(function: Callable[..., object], operands: Iterable[object]) -> str | None:
    """The method of the program's own that a function would ask of one of the operands, or of what they hold."""
    operands = [operand for operand in operands if type(operand) not in _PLAIN]
    if not operands:
        return None
    known = _ASKED.get(function) if type(function).__hash__ is not None else None
    name = getattr(function, "__name__", "").strip("_").removeprefix("i")
    names = known or (f"__{name}__", f"__r{name}__", f"__i{name}__")
    return next(filter(None, (_found(operand, names) for operand in operands)), None)


def own_method(obj: object, *names: str) -> str | None:
    """The first of these that its class has from the program, not from torch, the standard library or C."""
    cls = type(obj)
    if cls in _PLAIN:
        return None
    return next((name for name in names if _is_programs(cls, name) or _is_made_by_item(obj, name)), None)


def metaclass_runs_code(obj: object) -> bool:
    """True if code of the program runs where its class, or the class that it is, is only looked at, as a key for one.

    Such code must see no other questions than CPython's.
    """
    cls = type(obj)
    return _runs_code(type(cls)) or (type in type.__getattribute__(cls, "__mro__") and _runs_code(cls))


def is_asked_for_what_is_missing(cls: type) -> bool:
    """True if a ``__getattr__`` of the program's own sees which attributes its objects do not have."""
    return _is_programs(cls, "__getattr__")


def _runs_code(metaclass: type) -> bool:
    """True if a metaclass answers for attributes, equality or hash of its classes by code of the program."""
    if metaclass is type or metaclass is _OF_TENSORS:
        return False
    return any(_is_programs(metaclass, name) for name in ("__getattribute__", "__eq__", "__hash__"))


def _found(operand: Any, names: tuple[str, ...]) -> str | None:
    """The method of the program's that an operand has by one of these names, or that an item in it has."""
    if type(operand) in (tuple, list, set, frozenset):
        return next(filter(None, (_found(item, names) for item in operand)), None)
    if type(operand) is dict:
        return _found([*operand, *operand.values()], names)
    return own_method(operand, *names)


def is_programs(cls: type, *names: str) -> bool:
    """True if a class has something of the program's by one of these names."""
    return any(_is_programs(cls, name) for name in names)


def _is_programs(cls: type, name: str) -> bool:
    """True if the member is of the program's: a function, or anything else that C does not do."""
    for owner in type.__getattribute__(cls, "__mro__"):
        held = type.__getattribute__(owner, "__dict__")
        if name in held:
            member = held[name]
            if isinstance(member, FunctionType):
                return not trusted(member)
            # Instances do not ask what a class is subscripted by; None blocks, and for a hash it is in C, too.
            is_other = name != ("__hash__" if member is None else "__class_getitem__")
            return is_other and not isinstance(member, _OF_C) and not trusted(owner)
    return False


_OF_C = (WrapperDescriptorType, MethodDescriptorType, BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType)


def _is_made_by_item(obj: object, name: str) -> bool:
    """True if ``C[...]`` of a class runs code of the program.

    A ``__class_getitem__`` is no method of its metaclass.
    """
    if name != "__class_getitem__" or not isinstance(obj, type):
        return False
    member = held_by(obj, name)
    if member is None and is_asked_for_what_is_missing(type(obj)):
        return True
    function = getattr(member, "__func__", member)
    if isinstance(function, (type, BuiltinFunctionType, ClassMethodDescriptorType)):  # as `GenericAlias` is
        return False
    return function is not None and not trusted(function)
