"""``inspect.signature``: libraries ask before they call."""

from __future__ import annotations

import inspect
from types import CellType, FunctionType
from typing import Any

from capture.evaluator.builtin_rules.registry import constant_of, rule
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, DictSource, KeySource, SignatureSource
from capture.reasons import Kind
from capture.values.base import NotConstant, Tracer, Value, trusted
from capture.values.classes import ClassValue
from capture.values.function import BoundMethod, BuiltinValue, FunctionValue
from capture.values.user_object import UserObject


@rule(inspect.signature, kinds=((FunctionValue, BoundMethod, BuiltinValue, ClassValue, UserObject),))
def signature(ctx: Tracer, function: Value) -> Value:
    is_bound, real = isinstance(function, BoundMethod), _existing(ctx, function)
    if real is None:
        ctx.stop(Kind.SIGNATURE, f"the signature of {function.describe()} is asked for")
    try:
        source = SignatureSource(real, bound=is_bound)
        return ctx.wrap(source.obj, source)
    except (TypeError, ValueError) as error:
        return ctx.throw(type(error), *error.args)


def _existing(ctx: Tracer, value: Value) -> Any:
    """The real callable, or one with the same signature; None where there is none."""
    if isinstance(value, FunctionValue):
        _rely_on_parts(ctx, value)
        return value.function or _like(ctx, value)
    if isinstance(value, BoundMethod):
        return None if isinstance(value.function, BoundMethod) else _existing(ctx, value.function)
    if isinstance(value, (BuiltinValue, ClassValue)):
        return value.identity() if getattr(value, "receiver", None) is None else None
    return value.obj if isinstance(value, UserObject) else None


_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__annotations__")
_SHOWN_INSTEAD = ("__signature__", "__wrapped__")
"""Attributes whose signature ``inspect`` shows in place of the function's own."""


def _rely_on_parts(ctx: Tracer, value: FunctionValue) -> None:
    """Guards what the signature of a function of the program is made of, which calls of it do not all read."""
    real, source = value.function, value.source
    if real is None or source is None or trusted(real):
        return
    for name in _PARTS:
        ctx.guard(AttrSource(source, name), GuardKind.IS, getattr(real, name))
    for name in _SHOWN_INSTEAD:
        entry = KeySource(DictSource(source), name)
        if name in vars(real):
            ctx.guard(entry, GuardKind.IS, vars(real)[name])
        else:
            ctx.guard(entry, GuardKind.ABSENT)


def _like(ctx: Tracer, made: FunctionValue) -> FunctionType | None:
    """A function with the parameters of one that was made here, where its defaults and annotations are constants."""
    if made.attributes:  # among them may be ``__wrapped__``, whose signature it would show
        return None
    try:
        defaults = tuple(constant_of(ctx, value) for value in made.defaults)
        annotations = [constant_of(ctx, value) for value in made.annotations]
        named = {name: constant_of(ctx, value) for name, value in made.keyword_defaults.items()}
    except NotConstant:
        return None
    cells = tuple(CellType() for _ in made.code.co_freevars)
    function = FunctionType(made.code, {}, made.code.co_name, defaults, cells)
    function.__kwdefaults__ = named
    function.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True))
    return function
