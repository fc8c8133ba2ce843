"""Classes that captured code defines: the statement, and what decorates their members."""

from __future__ import annotations

import builtins

from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue
from capture.values.function import FunctionValue
from capture.values.made_class import MadeClass, MemberValue, changed_property, define
from capture.values.mapping import DictValue


@rule(builtins.__build_class__, kinds=(FunctionValue, ConstantValue))
def build_class(ctx: World, body: FunctionValue, name: ConstantValue, *bases: Value, **keywords: Value) -> MadeClass:
    """Evaluates a class statement: the body fills a namespace, of which a dummy class is made."""
    if keywords:
        hint = "define it outside of the function"
        ctx.stop(Kind.CLASS, f"the class `{name.value}` is defined with arguments for whoever makes it", hint)
    namespace = DictValue()
    return define(ctx, name.value, bases, namespace, ctx.run_class_body(body, namespace))


def _member(kind: object) -> None:
    """The rule for ``property``, ``staticmethod`` or ``classmethod``."""

    @rule(kind)
    def make(ctx: Tracer, *functions: Value) -> Value:
        return MemberValue(kind, functions)


def _change(which: str) -> None:
    """The rule for ``property.setter`` or its kin."""

    @rule(getattr(property, which), kinds=(MemberValue, None))
    def change(ctx: Tracer, member: MemberValue, function: Value) -> Value:
        return changed_property(ctx, member, which, function)


for _kind in (property, staticmethod, classmethod):
    _member(_kind)
for _which in ("getter", "setter", "deleter"):
    _change(_which)
