"""The table that the rules are written into, (function, kinds of operands) to a small rule, and what rules share.

``dispatch`` looks up in it.
"""

from __future__ import annotations

import enum
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GenericAlias,
    MappingProxyType,
    MethodDescriptorType,
    MethodWrapperType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, Concatenate, ForwardRef, TypeVar

import torch

from capture.evaluator.world import World
from capture.reasons import Kind
from capture.signals import let_through
from capture.values.base import NotConstant, Tracer, Value, derives, module_name, realize
from capture.values.classes import ClassValue, rely_on_names
from capture.values.constant import ConstantValue, differs_from_itself
from capture.values.own_methods import asked_method
from capture.values.set_orders import UNKNOWN, holds_a_set

Kinds = tuple[Any, ...]
Rule = Callable[Concatenate[World, ...], Value]
# Kinds are classes of values (or tuples of them) for the first operands, None for any; the first rule that fits is
# taken, so that a rule for ``(None,)`` written early hides later ones.
RULES: dict[object, list[tuple[Kinds, Rule]]] = {}
PURE: set[object] = set()


def rule(*functions: object, kinds: Kinds = ()) -> Callable[[Rule], Rule]:
    """Registers a rule for ``functions`` where each operand is of its kind; None stands for any value."""

    def register(handler: Rule) -> Rule:
        for function in functions:
            RULES.setdefault(function, []).append((kinds, handler))
        return handler

    return register


def pure(*functions: object) -> None:
    """Marks functions whose answer depends on nothing but constant operands."""
    PURE.update(functions)


def hashable_in(function: object, functions: set[object]) -> bool:
    """True if the function is among these; one without a hash is not."""
    try:
        return function in functions
    except TypeError:
        return False


def fold(ctx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The result of a call, computed now; None where an operand is not constant.

    Whatever the function raises, the user's program raises.
    """
    try:
        operands = [constant_of(ctx, arg) for arg in args]
        options = {name: constant_of(ctx, value) for name, value in kwargs.items()}
    except NotConstant:
        return None
    if hashable_in(function, _COMPARE_ITEMS) and any(map(_holds_nan, operands)):
        return None  # which NaN it is decides; the rules rely on that
    if (method := asked_method(function, [*operands, *options.values()])) is not None:
        ctx.stop(Kind.SPECIAL_METHOD, f"{name_of(function)} asks `{method}`, which is the program's own")
    try:
        result = function(*operands, **options)
    except Exception as error:  # noqa: BLE001 - whatever a pure function raises on these operands, it raises in eager too
        let_through(error)
        ctx.throw(type(error), *error.args)
    if not _has_no_state(result):
        kind = f"a {type(result).__qualname__}, which has a state"
        ctx.stop(Kind.BUILTIN, f"{name_of(function)} gives {kind}: each call makes its own")
    _note_what_varies(ctx, function, args, operands, result)
    if isinstance(result, str):  # the text of a class is what it is called
        for arg in args:
            if isinstance(arg, ClassValue):
                rely_on_names(ctx, arg.cls, "__module__", "__qualname__")
    # A function that gives one of its operands gives that very object: ``tuple(t) is t``.
    same = (arg for arg, operand in zip(args, operands, strict=True) if operand is result)
    return next(same, None) or ctx.literal(result)


def _has_no_state(result: object) -> bool:
    """True for what may be kept with a version: immutable all the way, or of containers that ``literal`` makes anew."""
    cls = type(result)
    if cls in _CONTAINERS or (derives(cls, tuple) and not cls.__dictoffset__):
        return all(map(_has_no_state, result))  # type: ignore[call-overload]
    if cls is dict:
        return all(map(_has_no_state, (*result, *result.values())))  # type: ignore[attr-defined,misc]
    return cls in _STATELESS or derives(cls, type) or derives(cls, enum.Enum) or cls.__module__ == _ANNOTATIONS


_CONTAINERS = (tuple, list, frozenset)
_STATELESS = frozenset({
    *(int, float, complex, bool, str, bytes, slice, range, type(None), type(...), type(NotImplemented)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo),
    *(re.Pattern, re.Match, operator.attrgetter, operator.itemgetter, operator.methodcaller),
    # Found, and not made: of code and of classes; the proxy of a pattern's groups is all that leads to its dict.
    *(BuiltinFunctionType, FunctionType, CodeType, MethodDescriptorType, WrapperDescriptorType, MethodWrapperType),
    *(MappingProxyType, GenericAlias, UnionType, ForwardRef, TypeVar),
})  # fmt: skip
_ANNOTATIONS = "typing"
"""The module whose objects say of what a value is, and hold nothing else."""


def _note_what_varies(
    ctx: Tracer, function: object, args: Sequence[Value], operands: Sequence[object], result: object
) -> None:
    """Notes where the answer hangs on hashes, or on the order of a set."""
    if getattr(function, "__name__", "") in ("hash", "__hash__"):
        ctx.varies("it asks for a hash, which is another one in each process")
    if not any(map(holds_a_set, operands)):
        return
    # A set of what sets hold has an order that follows from theirs.
    if type(result) is frozenset:
        for arg in args:
            if isinstance(arg, ConstantValue) and arg.source is not None:
                arg.rely_on_order(ctx)
    elif not hashable_in(function, _ASK_NO_ORDER):
        ctx.varies(UNKNOWN)


_ASK_NO_ORDER: set[object] = {
    *(operator.contains, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
    *(operator.is_, operator.is_not, operator.not_, operator.truth, operator.getitem),
    *(len, bool, isinstance, type, frozenset.issubset, frozenset.issuperset, frozenset.isdisjoint),
    *(frozenset.__contains__, frozenset.__eq__, frozenset.__ne__, frozenset.__len__),
}
_COMPARE_ITEMS: set[object] = {operator.eq, operator.ne, operator.contains, operator.countOf, operator.indexOf}


def _holds_nan(operand: object) -> bool:
    """True if a NaN is among the items, which is equal to itself by its identity alone."""
    if isinstance(operand, dict):
        return any(map(_holds_nan, operand.values()))
    return isinstance(operand, (tuple, list)) and any(differs_from_itself(it) or _holds_nan(it) for it in operand)


def constant_of(ctx: Tracer, value: Value) -> Any:
    """The constant behind a value; the items of containers are looked at (and so guarded)."""
    value = realize(ctx, value)
    # ``constant`` refuses items that nobody has looked at: they would be relied on without a guard.
    for part in value.parts():
        realize(ctx, part)
    return value.constant()


def name_of(function: object) -> str:
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)
    module = module_name(function)
    return f"`{module}.{name}`" if module and module != "builtins" else f"`{name}`"
