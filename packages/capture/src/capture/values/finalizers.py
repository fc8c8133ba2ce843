"""Finalizers: whether somebody notices that a variable which is not read any more is let go.

A break hands over what the rest of a function reads.  In CPython a frame keeps the others, too, until it returns: a
temporary directory that is deleted with its object, a view that keeps its buffer from growing, a class that its bases
know, a module that its hooks refer to weakly. Tensors, numbers and code are let go at once: nothing but memory hangs on
them.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Collection
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch

from capture.errors import SkipFrame
from capture.guards.sources import ArgSource, ClosureSource, Source
from capture.reasons import Kind, Reason
from capture.values.autograd_leaves import is_leaf
from capture.values.base import LazyValue, Value, held_by, module_name, reachable, settled
from capture.values.function import CellValue, ClassValue
from capture.values.mapping import DictValue
from capture.values.sequence import SequenceValue, SetValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject

_QUIET = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, enum.Enum),
    *(FunctionType, MethodType, ModuleType, type(len)),
    *(torch.Tensor, torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_CONTAINERS = (list, tuple, dict, set, frozenset, torch.Size)
_MADE_OF_OTHERS = (SequenceValue, DictValue, SetValue, UserObject, CellValue)
_LONGEST = 64
_NAME = vars(type)["__name__"]  # read past metaclasses, which may have code of their own for it


def end_is_noticed(value: Value, shown: Collection[Value]) -> bool:
    """Whether a value is, or is made of, an object whose end may do something.

    That is one from outside, or one that is ``shown`` to the outside, as an operand of what CPython runs.
    """
    todo, seen = [value], set[int]()
    while todo:
        value = settled(todo.pop())
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, UserObject) and value in shown:
            return True
        if isinstance(value, LazyValue) or (isinstance(value, UserObject) and value.obj is not None):
            if _end_of_object_is_noticed(value.obj):
                return True
        elif isinstance(value, ClassValue) and not _is_held_by_its_module(value.cls):
            return True
        elif value.source is None and isinstance(value, _MADE_OF_OTHERS):
            todo += value.parts()
    return False


def has_history(value: Value) -> bool:
    """Whether a value is, or holds, a tensor that was computed from others which want gradients."""
    return any(_has_steps(each) for each in reachable([value]))


def _has_steps(value: Value) -> bool:
    value = settled(value)
    tensor = value.fake if isinstance(value, TensorValue) else getattr(value, "obj", None)
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad and not is_leaf(tensor)


def require_quiet_end(value: Value) -> None:
    """Leaves a frame to CPython that unbinds an argument whose end may run code: nothing else may refer to it."""
    value = settled(value)
    if isinstance(value, (LazyValue, UserObject)) and _may_be_the_last(value.source):
        cls = type(value.obj)
        if isinstance(held_by(cls, "__del__"), FunctionType):
            raise SkipFrame(
                Reason(Kind.FINALIZER, f"an object of class `{cls.__qualname__}` may end here, with its `__del__`")
            )


def _may_be_the_last(source: Source | None) -> bool:
    """Whether a variable may be all that refers to what comes from there: an argument, a cell, part of a temporary."""
    if source is None or isinstance(source, (ArgSource, ClosureSource)):
        return source is not None
    root = source.root()
    return isinstance(root, ArgSource) and root.name.startswith(".")


def _end_of_object_is_noticed(obj: Any) -> bool:
    if not _is_noisy(obj) or not any(type(obj) is kind for kind in _CONTAINERS):
        return _is_noisy(obj)
    items = list(obj.values()) if type(obj) is dict else list(obj)
    return any(_is_noisy(item) for item in items[:_LONGEST])


def _is_noisy(obj: Any) -> bool:
    if issubclass(type(obj), type):  # ``isinstance`` would ask a ``__class__``, which may be code of its own
        return not _is_held_by_its_module(obj)
    return not issubclass(type(obj), _QUIET)


def _is_held_by_its_module(cls: type) -> bool:
    module = sys.modules.get(module_name(cls))
    return module is not None and vars(module).get(_NAME.__get__(cls)) is cls
