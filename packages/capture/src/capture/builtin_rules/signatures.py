"""``inspect.signature`` of functions that exist: libraries ask before they call."""

from __future__ import annotations

import inspect
from types import MethodType
from typing import Any

from capture.builtin_rules.registry import rule
from capture.values.base import Tracer, Value
from capture.values.function import BoundMethod, BuiltinValue, ClassValue, FunctionValue
from capture.values.user_object import UserObject


@rule(inspect.signature, kinds=((FunctionValue, BoundMethod, BuiltinValue, ClassValue, UserObject),))
def signature(ctx: Tracer, function: Value) -> Value:
    real = _existing(function)
    if real is None:
        ctx.stop("signature", f"the signature of {function.describe()} is asked for")
    try:
        return ctx.literal(inspect.signature(real))
    except (TypeError, ValueError) as error:
        return ctx.throw(type(error), *error.args)


def _existing(value: Value) -> Any:
    """The real callable, or one with the same signature."""
    if isinstance(value, FunctionValue):
        return value.function
    if isinstance(value, BoundMethod):
        function = _existing(value.function)
        return None if function is None else MethodType(function, object())
    if isinstance(value, (BuiltinValue, ClassValue)):
        return value.identity() if getattr(value, "receiver", None) is None else None
    return value.obj if isinstance(value, UserObject) else None
