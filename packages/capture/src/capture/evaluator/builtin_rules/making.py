"""The two steps of ``type.__call__`` that code of the program may take: ``__new__``, and ``__init__`` of what it gave.

Must not know: what objects are made where C takes the first step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import BuiltinFunctionType, FunctionType

from capture.values.base import Tracer, Value, derives, realize, type_name
from capture.values.classes import ClassValue
from capture.values.constant import is_none
from capture.values.descriptors import bind, get, member_of
from capture.values.slots import is_slot_of_c
from capture.values.user_object import lookup


def made_by_code(ctx: Tracer, cls: ClassValue, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The object that a ``__new__`` gives which is none of C's; None where it is one of C's."""
    owner, new = lookup(cls.cls, "__new__")
    function = new.__func__ if isinstance(new, staticmethod) else new
    if isinstance(function, BuiltinFunctionType):
        return None
    if isinstance(function, FunctionType):
        bound = ctx.literal(function)  # of a class statement it is static
    else:
        bound = get(ctx, member_of(ctx, owner, "__new__", new), None, cls)
    return realize(ctx, ctx.call(bound, [cls, *args], kwargs))


def initialised_by_code(ctx: Tracer, made: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Calls the ``__init__`` of the object's class, which need not be the one that was called; False for one of C's."""
    kind = made.python_type()
    owner, init = lookup(kind, "__init__")
    if is_slot_of_c(kind, "__init__"):
        return False
    said = realize(ctx, ctx.call(bind(ctx, init, owner, "__init__", made), args, kwargs))
    if not is_none(said):
        ctx.throw(TypeError, f"__init__() should return None, not '{type_name(said.python_type())}'")
    return True


def is_initialised(made: Value, cls: type) -> bool:
    """True if ``type.__call__`` goes on to ``__init__``: ``__new__`` may give what it likes."""
    return derives(made.python_type(), cls)
