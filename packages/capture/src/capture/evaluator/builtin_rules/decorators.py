"""``functools.wraps`` on functions that the captured code makes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence

from capture.evaluator.builtin_rules.registry import constant_of, rule
from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue
from capture.values.function import BuiltinValue, FunctionValue
from capture.values.partial import PartialValue

_ASSIGNED: Sequence[str] = functools.WRAPPER_ASSIGNMENTS


@rule(functools.update_wrapper, kinds=(FunctionValue,))
def update_wrapper(ctx: Tracer, wrapper: FunctionValue, wrapped: Value, **options: Value) -> Value:
    """Gives a function that was made here the names, documentation and attributes of the one that it wraps."""
    names = {name: tuple(constant_of(ctx, value)) for name, value in options.items()}
    standard = {"assigned": _ASSIGNED, "updated": functools.WRAPPER_UPDATES}
    if wrapper.real is not None or not names.items() <= standard.items():
        ctx.stop(Kind.FUNCTION_ATTRIBUTE, "a function of the program is made to look like another")
    for name in _ASSIGNED:
        made = wrapped if isinstance(wrapped, FunctionValue) and wrapped.real is None else None
        if made is not None and name == "__annotations__":
            wrapper.attributes[name] = _annotations(ctx, made)
        elif made is None or name != "__type_params__":
            _copy(ctx, wrapper, wrapped, name)
    for name in _hung_on(wrapped):
        _copy(ctx, wrapper, wrapped, name)
    wrapper.attributes["__wrapped__"] = wrapped
    return wrapper


def _annotations(ctx: Tracer, function: FunctionValue) -> Value:
    """The annotations of a function that was made here: one dict from now on, which both functions show."""
    known = function.attributes.get("__annotations__")
    if known is None:
        known = function.attributes["__annotations__"] = ctx.call_builtin(dict, [], {})
        for name, of in zip(function.annotations[::2], function.annotations[1::2], strict=True):
            ctx.call_builtin(operator.setitem, [known, name, of], {})
    return known


def _copy(ctx: Tracer, wrapper: FunctionValue, wrapped: Value, name: str) -> None:
    """Copies an attribute, if the wrapped function has it."""
    read = PartialValue(BuiltinValue(getattr, receiver=wrapped), [ConstantValue(name)], {})
    found = ctx.attempt(read, AttributeError)
    if found is not None:
        wrapper.attributes[name] = found


def _hung_on(wrapped: Value) -> Iterator[str]:
    if isinstance(wrapped, FunctionValue):
        names = wrapped.attributes if wrapped.real is None else vars(wrapped.real)
        yield from (name for name in names if name not in _ASSIGNED)
