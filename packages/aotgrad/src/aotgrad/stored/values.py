"""Values as data that JSON holds, and back.

A value is a number, a text, a truth, None or a list of values for a tuple; all else is an object of one key, its tag:
`l` a list, `h` a frozen set, `f` a float that JSON has no name for, `t` a dtype, layout or memory format, `d` a device,
`o` an operator, `s` a slice, `k` one of the classes of plans, by name and fields.
Must not know: what the values are for.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import fields
from types import BuiltinFunctionType, FunctionType
from typing import TypeAlias

import torch

from aotgrad import facts, roles
from aotgrad.autograd_graph.result_levels import Stage
from aotgrad.autograd_graph.saved_inputs import Noted, SavedInput
from aotgrad.autograd_graph.saved_tensors import Behind
from aotgrad.backward.double_backward import ResultsRead
from aotgrad.backward.plan import EarlyWrite, Layout, PartialBackward, Plan
from aotgrad.stacks.plan import Laid, PartStep, StackPlan, Value
from aotgrad.torch_versions import OpOverload, set_grad_enabled
from aotgrad.tracing.inputs import Member

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"

_CLASSES: dict[str, type] = {
    found.__name__: found
    for found in (
        facts.Step, facts.Restride, facts.Detach, facts.Data, facts.Base, facts.Unfollowed, facts.Followed,
        facts.Mutation, facts.Constant, facts.Argument, facts.OfInput, facts.OfResult, facts.OfSize, facts.SizeRef,
        facts.Facts, Member, roles.Primal, roles.Size, roles.AliasBase, roles.Tangent, roles.Saved, roles.SavedSize,
        roles.UpdatedInput, roles.Result, roles.ResultSize, roles.Gradient,
        StackPlan, PartStep, Laid, Value, Plan, Layout, EarlyWrite, PartialBackward, ResultsRead, Stage, Behind, Noted,
        SavedInput,
    )
}  # fmt: skip
_TORCH = {
    f"torch.{name}": value
    for name, value in vars(torch).items()
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format)
}
_OF_SIZES = "add sub mul floordiv truediv mod pow neg abs eq ne lt le gt ge and_ or_ not_"
_FUNCTIONS: dict[str, Callable[..., object]] = {
    "getitem": operator.getitem,
    "grad": torch.autograd.grad,
    "set_grad_enabled": set_grad_enabled,
    "pow": pow,
    "round": round,
    **{f"operator.{name}": getattr(operator, name) for name in _OF_SIZES.split()},
    **{f"math.{name}": getattr(math, name) for name in ("floor", "ceil", "trunc")},
    **{name: found for name, found in vars(torch).items() if name.startswith("sym_") and callable(found)},
}
_NAMES = {function: name for name, function in _FUNCTIONS.items()}


class Unwritable(Exception):
    """Says what has no form as data."""


def write(value: object, leaf: Callable[[object], Plain] = lambda value: None) -> Plain:
    """``leaf`` may answer for values that it knows."""
    if value is None or type(value) in (bool, int, str):
        return value  # type: ignore[return-value]
    own = leaf(value)
    if own is not None:
        return own
    if type(value) is float:
        return value if math.isfinite(value) else {"f": repr(value)}
    if type(value) in (tuple, torch.Size):
        return [write(item, leaf) for item in value]  # type: ignore[attr-defined]
    if isinstance(value, list):
        return {"l": [write(item, leaf) for item in value]}
    if isinstance(value, frozenset):
        return {"h": [write(item, leaf) for item in sorted(value)]}
    if isinstance(value, slice):
        return {"s": [write(each, leaf) for each in (value.start, value.stop, value.step)]}
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"t": str(value)}
    if isinstance(value, torch.device):
        return {"d": str(value)}
    if isinstance(value, FunctionType | BuiltinFunctionType) and value in _NAMES:
        return {"o": _NAMES[value]}
    if isinstance(value, OpOverload):
        return {"o": str(value)}
    name = type(value).__name__
    if _CLASSES.get(name) is type(value):
        return {"k": [name, *(write(getattr(value, each.name), leaf) for each in fields(value))]}  # type: ignore[arg-type]
    raise Unwritable(f"a {name} is among what it needs")


def read(value: Plain, leaf: Callable[[str, Plain], object] | None = None) -> object:
    """``leaf`` reads what has another tag."""
    if isinstance(value, list):
        return tuple([read(item, leaf) for item in value])
    if not isinstance(value, dict):
        return value
    ((tag, held),) = value.items()
    if tag in ("l", "s", "h", "k") and isinstance(held, list):
        return _made(tag, held, leaf)
    if tag in ("f", "t", "d", "o") and isinstance(held, str):
        return float(held) if tag == "f" else torch.device(held) if tag == "d" else _named(tag, held)
    if leaf is None:
        raise ValueError(tag)
    return leaf(tag, held)


def _made(tag: str, held: Sequence[Plain], leaf: Callable[[str, Plain], object] | None) -> object:
    if tag == "k":
        made: object = _CLASSES[str(held[0])](*(read(item, leaf) for item in held[1:]))
        return made
    items = [read(item, leaf) for item in held]
    return items if tag == "l" else frozenset(items) if tag == "h" else slice(*items)


def _named(tag: str, name: str) -> object:
    if tag == "t":
        return _TORCH[name]
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
