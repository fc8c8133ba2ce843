"""Parameters of a function: their slots, and arguments laid into them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import NoReturn

from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue
from capture.values.function import FunctionValue
from capture.values.mapping import DictValue
from capture.values.sequence import TupleValue


def argument_names(code: CodeType) -> tuple[str, ...]:
    """The variables that are bound when a frame of this code starts."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def all_positional(code: CodeType) -> CodeType:
    """A copy of the code for callers that give every slot, in order."""
    return code.replace(
        co_argcount=len(argument_names(code)),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )


def keywords_of(code: CodeType) -> str | None:
    """The variable of its ``**kwargs``, a dict that is made for each call."""
    return argument_names(code)[-1] if code.co_flags & inspect.CO_VARKEYWORDS else None


def bind_arguments(
    tracer: Tracer, function: FunctionValue, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> dict[str, Value]:
    """Python's rules for matching arguments to parameters.  A mismatch is left to CPython, whose message is right."""
    code = function.code
    names, count, keyword_only = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    slots: dict[str, Value] = dict(zip(names[:count], args, strict=False))
    extra = dict(kwargs)
    for name in names[code.co_posonlyargcount : count + keyword_only]:
        if name in extra:
            if name in slots:
                _mismatch(tracer, function)
            slots[name] = extra.pop(name)
    # *args and **kwargs have their slots behind those of all named parameters.
    position = count + keyword_only
    if code.co_flags & inspect.CO_VARARGS:
        slots[names[position]] = TupleValue(args[count:])
        position += 1
    elif len(args) > count:
        _mismatch(tracer, function)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        slots[names[position]] = _keyword_dict(extra)
    elif extra:
        _mismatch(tracer, function)
    _fill_defaults(tracer, function, slots)
    return slots


def _fill_defaults(tracer: Tracer, function: FunctionValue, slots: dict[str, Value]) -> None:
    """Fills what was not passed, and leaves to CPython what has no default."""
    code = function.code
    positional = code.co_varnames[: code.co_argcount]
    for name, default in zip(reversed(positional), reversed(function.defaults), strict=False):
        slots.setdefault(name, default)
    for name, default in function.keyword_defaults.items():
        slots.setdefault(name, default)
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if name not in slots:
            _mismatch(tracer, function)


def _keyword_dict(extra: Mapping[str, Value]) -> DictValue:
    """The dict of ``**kwargs``, which is new in each call."""
    made = DictValue()
    made.entries = {name: (ConstantValue(name), value) for name, value in extra.items()}
    return made


def _mismatch(tracer: Tracer, function: FunctionValue) -> NoReturn:
    tracer.stop(Kind.CALL, f"the arguments do not fit {function.describe()}")
