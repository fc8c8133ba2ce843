"""Words for the objects that guards are about: short, and without running code of the program.

Must not know what a guard is.
"""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch


def describe(value: Any) -> str:
    """A short account of any object, never its contents; by its type alone, which runs no code of the program."""
    if issubclass(type(value), torch.Tensor) and not answers_by_code(type(value)):
        sizes = None if value.is_nested else tuple(value.shape)
        return tensor_words(type(value), value.dtype, value.device, value.requires_grad, sizes)
    if type(value) in (int, float, complex, bool, str, bytes, type(None)):
        return repr(value)[:80]
    if type(value) in (list, tuple, dict, set):
        return f"a {type(value).__name__} of length {len(value)}"
    if issubclass(type(value), (type, FunctionType, BuiltinFunctionType)):
        return str(value.__qualname__)
    return f"a {type(value).__qualname__}"


def answers_by_code(cls: type) -> bool:
    """True if tensors of this class may compute in Python what they are asked for, sizes among it."""
    named = next(vars(base)["__torch_dispatch__"] for base in cls.__mro__ if "__torch_dispatch__" in vars(base))
    return named is not vars(torch.Tensor)["__torch_dispatch__"]


def tensor_words(cls: type, dtype: object, device: Any, requires_grad: bool, sizes: Any) -> str:
    kind = "tensor" if cls is torch.Tensor else cls.__name__
    shape = "any shape" if sizes is None else "(" + ", ".join("*" if s is None else str(s) for s in sizes) + ")"
    grad = ", requires grad" if requires_grad else ""
    return f"{str(dtype).removeprefix('torch.')} {kind} of shape {shape} on {device}{grad}"


def listed(value: object) -> str:
    """The value itself, but for tensors, as the keys of an optimizer's state are: their numbers say nothing."""
    if isinstance(value, torch.Tensor):
        return describe(value)
    if type(value) is tuple and any(isinstance(item, torch.Tensor) for item in value):
        return f"({', '.join(map(listed, value[:3]))}{', ...' if len(value) > 3 else ''})"
    return repr(value)
