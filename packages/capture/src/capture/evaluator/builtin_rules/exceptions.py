"""Exceptions as objects: how they are made, their text, parts of groups, and which one is being handled."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from capture.bytecode.versions import PY313
from capture.evaluator.builtin_rules.making import initialised_by_code, is_initialised, made_by_code
from capture.evaluator.builtin_rules.registry import constant_of, rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import NotConstant, Tracer, Value, derives, realize
from capture.values.classes import ClassValue, rely_on_names
from capture.values.constant import NONE, ConstantValue
from capture.values.exception import ExceptionValue, made_in_c
from capture.values.exception_group import ExceptionGroupValue, make_group, split
from capture.values.function import BoundMethod, FunctionValue
from capture.values.sequence import ListValue, TupleValue

# -- making them -------------------------------------------------------------------------------------------------


def make_exception(
    ctx: World, cls: type[BaseException], args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """The object that calling a class of exceptions gives; None where CPython has to refuse the call."""
    target = ctx.literal(cls)
    assert isinstance(target, ClassValue)
    if issubclass(cls, _MADE_IN_THEIR_OWN_WAY) or (issubclass(cls, OSError) and len(args) > 1):
        ctx.stop(Kind.EXCEPTION_VALUE, f"{cls.__qualname__} makes more of its arguments than to keep them")
    made = made_by_code(ctx, target, args, kwargs) or new_exception(ctx, target, *args)
    if not isinstance(made, ExceptionValue) or not is_initialised(made, cls):
        return made
    if initialised_by_code(ctx, made, args, kwargs):
        return made
    # Classes in C refuse keywords, in words of their own: CPython finds them.
    if kwargs:
        return None
    # What a real one is made with, where it leaves the graph.
    made.new_args = list(args)
    return made


_MADE_IN_THEIR_OWN_WAY = (SyntaxError, UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)
"""Classes that refuse arguments or take them apart, as an ``OSError`` does with several."""

_CLASSES = [cls for cls in vars(builtins).values() if isinstance(cls, type) and issubclass(cls, BaseException)]


@rule(*{cls.__new__ for cls in _CLASSES}, kinds=(ClassValue,))
def new_exception(ctx: Tracer, cls: ClassValue, *args: Value, **kwargs: Value) -> Value:
    """``BaseException.__new__``, and that of groups."""
    if not derives(cls.cls, BaseException):
        ctx.stop(Kind.EXCEPTION_VALUE, f"an exception of {cls.describe()} is made")
    # A group of plain errors is of another class than was asked for (``ExceptionGroup``).
    if derives(cls.cls, BaseExceptionGroup):
        if len(args) != 2 or kwargs:
            ctx.stop(Kind.EXCEPTION_VALUE, "a group of exceptions is made of something else")
        made: ExceptionValue = make_group(ctx, cls.cls, *args)
    else:
        made = ExceptionValue(cls.cls, args)
    made.class_source = ctx.literal(made.cls).source
    return made


# -- text --------------------------------------------------------------------------------------------------------


@rule(str, kinds=(ExceptionValue,))
def exception_to_text(ctx: Tracer, value: ExceptionValue) -> Value:
    return _text(ctx, value, "__str__")


@rule(repr, kinds=(ExceptionValue,))
def exception_to_repr(ctx: Tracer, value: ExceptionValue) -> Value:
    rely_on_names(ctx, value.cls, "__name__")
    return _text(ctx, value, "__repr__")


_OF_ARGUMENTS: tuple[object, ...] = tuple(
    method
    for cls in (BaseException, KeyError, AttributeError, NameError, BaseExceptionGroup)
    for method in (cls.__str__, cls.__repr__)
)
"""Texts that are made of the arguments alone; others in C are of members beside them, as the name of a file is."""


def _shows_members(value: ExceptionValue, name: str) -> bool:
    method: object = getattr(value.cls, name)
    return not isinstance(method, FunctionType) and method not in _OF_ARGUMENTS


def _text(ctx: Tracer, value: ExceptionValue, name: str) -> Value:
    """The text of an exception whose arguments are constants, made by the real class."""
    if _shows_members(value, name):
        ctx.stop(Kind.TEXT, f"{value.describe()} is turned into text")
    if isinstance(getattr(value.cls, name), FunctionType):
        method = value.special(ctx, name)
        assert method is not None
        return ctx.call(method, [])
    try:
        return ConstantValue(getattr(_exception_like(ctx, value), name)())
    except (NotConstant, TypeError):
        ctx.stop(Kind.TEXT, f"{value.describe()} is turned into text")


def _exception_like(ctx: Tracer, value: ExceptionValue) -> BaseException:
    """An exception of the same class with the same arguments, for looking at now."""
    args = [_argument_like(ctx, arg) for arg in value.attribute(ctx, "args").elements(ctx)]
    create: Any = made_in_c(value.cls, "__new__")
    begin: Any = made_in_c(value.cls, "__init__")
    made: BaseException = create(value.cls, *args)
    begin(made, *args)
    return made


def _argument_like(ctx: Tracer, value: Value) -> object:
    """An argument as an object that the text of its exception can be made with."""
    value = realize(ctx, value)
    if isinstance(value, ListValue) and value.cls is list:
        return [_argument_like(ctx, item) for item in value.items]
    if not isinstance(value, ExceptionValue):
        return constant_of(ctx, value)
    # The text of what holds it would run the program's code, on an object that is not the program's.
    own = isinstance(value.cls.__repr__, FunctionType) or isinstance(value.cls.__str__, FunctionType)
    if own or _shows_members(value, "__str__") or _shows_members(value, "__repr__"):
        raise NotConstant
    return _exception_like(ctx, value)


# -- their methods -----------------------------------------------------------------------------------------------


def _only_keeps_its_arguments(cls: Any) -> bool:
    """True if ``__init__`` is that of ``BaseException``; those with members of their own set them."""
    # The last two are ``BaseException`` and ``object``.
    members = (member for base in cls.__mro__[:-2] for member in vars(base).values())
    return not any(isinstance(member, (MemberDescriptorType, GetSetDescriptorType)) for member in members)


@rule(*{cls.__init__ for cls in _CLASSES if _only_keeps_its_arguments(cls)}, kinds=(ExceptionValue,))
@rule(BaseExceptionGroup.__init__, kinds=(ExceptionGroupValue,))
def init_exception(ctx: Tracer, value: ExceptionValue, *args: Value) -> Value:
    value.new_args = list(args)
    return NONE


@rule(BaseException.with_traceback, kinds=(ExceptionValue, None))
def with_traceback(ctx: Tracer, value: ExceptionValue, traceback: Value, /) -> Value:
    value.plain_set(ctx, "__traceback__", traceback)
    return value


@rule(BaseException.add_note, kinds=(ExceptionValue, ConstantValue))
def add_note(ctx: Tracer, value: ExceptionValue, note: ConstantValue) -> Value:
    if note.python_type() is not str:
        ctx.stop(Kind.EXCEPTION_VALUE, "a note is not a text")
    notes = value.plain_attribute(ctx, "__notes__")
    # The list is made by the first note, so that most exceptions have no such attribute.
    if notes is None:
        value.absent(ctx, "__notes__")
        notes = ListValue([])
        value.plain_set(ctx, "__notes__", notes)
    return ctx.call_builtin(list.append, [notes, note], {})


@rule(BaseExceptionGroup.derive, kinds=(ExceptionGroupValue, None))
def derive(ctx: Tracer, group: ExceptionGroupValue, members: Value) -> Value:
    return make_group(ctx, BaseExceptionGroup, group.attribute(ctx, "message"), members)


@rule(BaseExceptionGroup.split, kinds=(ExceptionGroupValue, None))
def split_group(ctx: Tracer, group: ExceptionGroupValue, wanted: Value) -> Value:
    parts = split(ctx, group, _question(ctx, wanted))
    return TupleValue([NONE if part is None else part for part in parts])


@rule(BaseExceptionGroup.subgroup, kinds=(ExceptionGroupValue, None))
def subgroup(ctx: Tracer, group: ExceptionGroupValue, wanted: Value) -> Value:
    found, _ = split(ctx, group, _question(ctx, wanted), rest=False)
    return NONE if found is None else found


def _question(ctx: Tracer, wanted: Value) -> Callable[[ExceptionValue], bool]:
    """The test that ``split`` and ``subgroup`` make of each exception: by class, or by a function."""
    # Up to 3.12 CPython asks only functions; a bound method is no such, and is refused.
    if isinstance(wanted, (FunctionValue, BoundMethod)) and (PY313 or isinstance(wanted, FunctionValue)):
        return lambda error: realize(ctx, ctx.call(wanted, [error])).truth(ctx)
    candidates = wanted.elements(ctx) if isinstance(wanted, TupleValue) and wanted.cls is tuple else [wanted]
    classes = [realize(ctx, candidate) for candidate in candidates]
    if not all(isinstance(cls, ClassValue) and derives(cls.cls, BaseException) for cls in classes):
        ctx.stop(Kind.EXCEPTION_VALUE, f"a group of exceptions is split by {wanted.describe()}")
    return lambda error: any(derives(error.cls, cls.constant()) for cls in classes)


# -- the one that is being handled -------------------------------------------------------------------------------


@rule(sys.exc_info)
def exc_info(ctx: World) -> Value:
    handled = ctx.handled()
    if handled is None:
        return TupleValue([NONE, NONE, NONE])
    return TupleValue([ctx.literal(handled.python_type()), handled, handled.attribute(ctx, "__traceback__")])


@rule(sys.exception)
def exception(ctx: World) -> Value:
    return ctx.handled() or NONE
