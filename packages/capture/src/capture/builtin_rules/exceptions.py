"""Exceptions as objects: their text, their links, and which one is being handled."""

from __future__ import annotations

import sys
from types import FunctionType

from capture.builtin_rules.registry import constant_of, rule
from capture.values.base import NotConstant, Tracer, Value
from capture.values.constant import NONE, ConstantValue
from capture.values.exception import ExceptionValue
from capture.values.sequence import TupleValue


@rule(str, kinds=(ExceptionValue,))
def exception_to_text(ctx: Tracer, value: ExceptionValue) -> Value:
    return _text(ctx, value, "__str__")


@rule(repr, kinds=(ExceptionValue,))
def exception_to_repr(ctx: Tracer, value: ExceptionValue) -> Value:
    return _text(ctx, value, "__repr__")


def _text(ctx: Tracer, value: ExceptionValue, name: str) -> Value:
    """The text of an exception whose arguments are constants, made by the real class."""
    if isinstance(getattr(value.cls, name), FunctionType):
        method = value.special(ctx, name)
        assert method is not None
        return ctx.call(method, [])
    args = value.attribute(ctx, "args")
    try:
        alike: BaseException = value.cls.__new__(value.cls, *constant_of(ctx, args))
    except (NotConstant, TypeError):
        ctx.stop("text", f"{value.describe()} is turned into text")
    return ConstantValue(getattr(alike, name)())


@rule(BaseException.__init__, Exception.__init__, kinds=(ExceptionValue,))
def init_exception(ctx: Tracer, value: ExceptionValue, *args: Value) -> Value:
    value.new_args = list(args)
    return NONE


@rule(BaseException.with_traceback, kinds=(ExceptionValue, None))
def with_traceback(ctx: Tracer, value: ExceptionValue, traceback: Value) -> Value:
    return value


@rule(sys.exc_info)
def exc_info(ctx: Tracer) -> Value:
    handled = ctx.handled()
    if handled is None:
        return TupleValue([NONE, NONE, NONE])
    return TupleValue([ctx.literal(handled.python_type()), handled, handled.attribute(ctx, "__traceback__")])


@rule(sys.exception)
def exception(ctx: Tracer) -> Value:
    return ctx.handled() or NONE
