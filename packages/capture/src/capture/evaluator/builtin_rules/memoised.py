"""Functions that remember their answers: ``functools.lru_cache`` and ``functools.cache``.

The program's own are called by CPython: their hits and misses can be read, they can be cleared, and they run what they
hold as often as in eager.  Those of libraries, and all where the graph must be whole, are asked once for arguments that
are known now, and the answer is what every later call gets.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from capture.evaluator.builtin_rules.registry import constant_of
from capture.guards.kinds import GuardKind
from capture.guards.sources import ConstSource
from capture.reasons import Kind
from capture.signals import let_through
from capture.values.asked import Asked
from capture.values.base import NotConstant, Tracer, Value, realize, trusted
from capture.values.module import ModuleValue
from capture.values.user_object import UserObject

_MUTABLE = (list, dict, set)


def memoised(ctx: Tracer, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family of functions that remember their answers, which are asked once where nobody sees how often."""
    if not isinstance(function, functools._lru_cache_wrapper):
        return None
    if not (ctx.options.nopython or ctx.in_library() or trusted(function.__wrapped__)):
        hint = "call it before the compiled function, or ask for one graph, which asks it once"
        ctx.stop(Kind.MEMOISED, f"`{function.__qualname__}` remembers its answers and counts its calls", hint)
    try:
        operands = [_existing(ctx, arg) for arg in args]
        options = {name: _existing(ctx, value) for name, value in kwargs.items()}
    except NotConstant:
        return ctx.call(ctx.literal(function.__wrapped__), args, kwargs)
    try:
        answer = function(*operands, **options)
    except Exception as error:  # noqa: BLE001 - whatever the function raises, the user's program raises
        let_through(error)
        ctx.throw(type(error), *error.args)
    ctx.asked_once(Asked(function, tuple(operands), tuple(options.items()), answer))
    if type(answer) in _MUTABLE:  # one object, however often it is asked for
        return ctx.known(answer) or ctx.wrap(answer, ConstSource(answer, f"{function.__qualname__}(...)"))
    return ctx.literal(answer)


def _keeps_as_it_is(obj: object) -> bool:
    """True for loggers, of which libraries ask for a warning once, and for what annotations are made of."""
    return isinstance(obj, logging.Logger) or type(obj).__module__ == "typing"


def _existing(ctx: Tracer, value: Value) -> Any:
    """The real object behind a value, where the function leaves it as it is.

    Nobody knows what a function does to an object that may change, but modules are rarely changed by what they
    memoise.
    """
    value = realize(ctx, value)
    if isinstance(value, ModuleValue) and value.obj is not None and not value.overlay:
        return value.obj
    if isinstance(value, UserObject) and value.obj is not None:
        if _keeps_as_it_is(value.obj):
            if value.source is not None:
                ctx.guard(value.source, GuardKind.IS, value.obj)
            return value.obj
        hint = "memoise a function of numbers and texts, or what it returns"
        ctx.stop(Kind.MEMOISED, f"a memoised function is given {value.describe()}, which may change", hint)
    return constant_of(ctx, value)
