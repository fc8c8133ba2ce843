"""Objects turned into text: `str`, `repr` and `format`, whose answers are code of the class or made in C."""

from __future__ import annotations

import collections
import functools
from types import FunctionType

from capture.evaluator.builtin_rules.registry import fold, rule
from capture.reasons import Kind
from capture.values.base import NotConstant, Tracer, Value, realize, root_package
from capture.values.constant import ConstantValue
from capture.values.mapping import DictValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, SequenceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject


def _method(cls: type, name: str) -> object:
    """The special method that a class answers by; ``object.__str__`` hands on to ``__repr__``."""
    found = getattr(cls, name)
    return cls.__repr__ if found is object.__str__ else found


def _is_programs(method: object) -> bool:
    """True for Python code, other than that of named tuples, which shows their items alone."""
    return isinstance(method, FunctionType) and method.__code__.co_filename != collections.__file__


def _said(ctx: Tracer, method: object, value: Value, *args: Value) -> Value:
    """The text that a method in Python gives."""
    said = realize(ctx, ctx.call(ctx.literal(method), [value, *args]))
    if said.python_type() is not str:
        ctx.stop(Kind.SPECIAL_METHOD, f"the text of {value.describe()} is {said.describe()}")
    return said


@rule(str, format, repr, kinds=(SymbolicNumber,))
def symbolic_text(ctx: Tracer, value: SymbolicNumber, *rest: Value) -> Value:
    folded = fold(ctx, format if rest else str, [ConstantValue(value.specialized()), *rest], {})
    assert folded is not None
    return folded


@rule(str, kinds=(UserObject,))
def object_to_text(ctx: Tracer, value: UserObject) -> Value:
    return _text_of_object(ctx, value, "__str__")


@rule(repr, kinds=(UserObject,))
def object_to_repr(ctx: Tracer, value: UserObject) -> Value:
    return _text_of_object(ctx, value, "__repr__")


def _text_of_object(ctx: Tracer, value: UserObject, name: str) -> Value:
    method = _method(value.cls, name)
    # Texts made in C show addresses or contents; those of torch's modules are long and full of tensors.
    if not isinstance(method, FunctionType) or root_package(value.cls) == "torch":
        ctx.stop(Kind.TEXT, f"{value.describe()} is turned into text")
    return _said(ctx, method, value)


@rule(str, kinds=(SequenceValue,))
@rule(str, kinds=(DictValue,))
def container_to_text(ctx: Tracer, value: Value) -> Value:
    return _text_of_container(ctx, value, "__str__")


@rule(repr, kinds=(SequenceValue,))
@rule(repr, kinds=(DictValue,))
def container_to_repr(ctx: Tracer, value: Value) -> Value:
    return _text_of_container(ctx, value, "__repr__")


def _text_of_container(ctx: Tracer, value: Value, name: str) -> Value:
    method = _method(value.python_type(), name)
    if _is_programs(method):
        return _said(ctx, method, value)
    try:
        return ConstantValue(repr(plain_data(ctx, value)))
    except NotConstant:
        ctx.stop(Kind.TEXT, f"{value.describe()} is turned into text")


def plain_data(ctx: Tracer, value: Value, *around: Value) -> object:
    """A fresh Python object equal to a container of constants, for looking at now."""
    value = realize(ctx, value)
    if any(value is container for container in around):
        raise NotConstant  # it contains itself
    inner = functools.partial(plain_data, ctx)
    if isinstance(value, ListValue) and value.cls is list:
        return [inner(item, value, *around) for item in value.items]
    if isinstance(value, TupleValue):
        if around and _is_programs(value.cls.__repr__):  # which the text of what is around it calls
            raise NotConstant
        items = [inner(item, value, *around) for item in value.items]
        # Past a ``__new__`` of the program's, which has run.
        return tuple.__new__(value.cls, items) if isinstance(value.cls.__new__, FunctionType) else value.cls(items)
    if isinstance(value, DictValue) and value.cls is dict:
        return {inner(key): inner(item, value, *around) for key, item in value.entries.values()}
    return value.constant()


@rule(format, kinds=(ScalarValue,))
def format_number(ctx: Tracer, value: ScalarValue, *spec: Value) -> Value:
    known = value.of_this_call()
    if known is None:
        return ctx.stop(Kind.TEXT, f"{value.describe()} is formatted")
    return ctx.call_builtin(format, [ConstantValue(known), *spec], {})


@rule(format, kinds=(ConstantValue,))
def format_constant(ctx: Tracer, value: ConstantValue, spec: Value | None = None) -> Value:
    folded = fold(ctx, format, [value] if spec is None else [value, spec], {})
    return folded if folded is not None else ctx.stop(Kind.TEXT, f"{value.describe()} is formatted by an object")


@rule(format, kinds=(None,))
def format_value(ctx: Tracer, value: Value, spec: Value | None = None) -> Value:
    cls = value.python_type()
    method: object = cls.__format__
    if _is_programs(method) and root_package(cls) != "torch":  # a tensor's shows what it holds
        return _said(ctx, method, value, ConstantValue("") if spec is None else spec)
    plain = method is object.__format__ or isinstance(value, TensorValue)
    if not plain or (spec is not None and spec.constant()):
        ctx.stop(Kind.TEXT, f"{value.describe()} is formatted")
    return ctx.call_builtin(str, [value], {})
