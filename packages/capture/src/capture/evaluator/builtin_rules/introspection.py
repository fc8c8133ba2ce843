"""Functions that look into the frame that calls them."""

from __future__ import annotations

import builtins
import inspect
import sys
from types import GenericAlias
from typing import Any

from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Value, held_by, throw_as
from capture.values.classes import PythonModuleValue
from capture.values.constant import ConstantValue
from capture.values.function import FunctionValue
from capture.values.mapping import DictValue
from capture.values.partial import PartialValue
from capture.values.sequence import ListValue
from capture.values.user_object import UserObject


@rule(locals)
def local_variables(ctx: World) -> Value:
    made = DictValue()
    for name, value in ctx.local_variables().items():
        made.put(ctx, ConstantValue(name), value)
    return made


@rule(vars)
def variables(ctx: World, *operands: Value) -> Value:
    """``vars()``; without an argument the variables of the function."""
    if not operands:
        return local_variables(ctx)
    if len(operands) > 1:
        throw_as(ctx, vars, 0, 0)
    if isinstance(operands[0], (FunctionValue, PartialValue, PythonModuleValue)):
        return operands[0].attribute(ctx, "__dict__")
    if not isinstance(operands[0], UserObject) or issubclass(operands[0].cls, GenericAlias):
        ctx.stop(Kind.ATTRIBUTE, f"`vars()` of {operands[0].describe()}")
    if not operands[0].cls.__dictoffset__ and held_by(operands[0].cls, "__dict__") is None:
        ctx.throw(TypeError, "vars() argument must have __dict__ attribute")
    return operands[0].attribute(ctx, "__dict__")


@rule(dir)
def names(ctx: World, *operands: Value) -> Value:
    if operands:
        ctx.stop(Kind.ATTRIBUTE, f"`dir()` of {operands[0].describe()}")
    return ListValue([ConstantValue(name) for name in sorted(ctx.local_variables())])


def _looks_at_its_caller(function: Any) -> None:
    """Registers a function whose caller is left to CPython as a whole: it sees the caller's frame."""

    @rule(function)
    def leave(ctx: World, *operands: Value, **options: Value) -> Value:
        ctx.leave_frame(Kind.FRAME, f"`{function.__name__}` looks at the frame that calls it")


for _function in (sys._getframe, inspect.currentframe, eval, exec, builtins.breakpoint):
    _looks_at_its_caller(_function)
