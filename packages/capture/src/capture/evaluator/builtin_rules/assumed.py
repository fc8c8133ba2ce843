"""Functions whose results are taken for constants because the program says so: called once, at capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capture import state
from capture.evaluator.builtin_rules.registry import constant_of
from capture.reasons import Kind
from capture.values.base import NotConstant, Tracer, Value, realize
from capture.values.user_object import UserObject


def is_assumed(function: Any) -> bool:
    """True if the function was marked, by us or by ``torch.compiler.assume_constant_result``."""
    return id(function) in state.PROCESS.assumed or bool(vars(function).get("_dynamo_marked_constant", False))


def assumed_result(ctx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """The result that ``function`` returns now, as a constant of the graph."""
    try:
        operands = [_real(ctx, arg) for arg in args]
        options = {name: _real(ctx, value) for name, value in kwargs.items()}
    except NotConstant:
        ctx.stop(
            Kind.ASSUMED_CONSTANT,
            f"`{function.__qualname__}` is assumed to be constant and gets what is only known when the graph runs",
            "give it numbers, strings and objects, not tensors that were computed here",
        )
    return ctx.literal(function(*operands, **options))


def _real(ctx: Tracer, value: Value) -> object:
    """The object itself; one that was written to here is not what the program would pass."""
    value = realize(ctx, value)
    if isinstance(value, UserObject) and value.obj is not None and not value.overlay:
        return value.obj
    return constant_of(ctx, value)
