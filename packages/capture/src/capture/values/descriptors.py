"""The protocol of descriptors: what a member of a class becomes where it is read, assigned or deleted.

As in CPython the type of a member alone says so, by its slots: with ``__get__`` it binds, with ``__set__`` or
``__delete__`` it takes assignments, and with both it comes before the object's own entries.  What C does in these slots
is known for a few of them (``_BINDERS``), whichever class inherits them.  All others are code: it is evaluated where it
can be, and else the graph ends; nothing is taken for missing because it is no plain function.

Must not know: in which order members are looked up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodDescriptorType, MethodType, WrapperDescriptorType
from typing import NoReturn

from capture._engine import Outside, Region
from capture.bytecode.versions import PY313
from capture.guards.sources import AttrSource, GetitemSource, Source
from capture.reasons import Kind
from capture.values.base import Tracer, Value, held_by, throw_as
from capture.values.constant import NONE
from capture.values.function import BoundMethod, BuiltinValue
from capture.values.slots import NOTHING, binds, binds_by_code, is_of_c


@dataclass(frozen=True, slots=True)
class Member:
    """A member as its class holds it; ``path`` reads it from the class, and ``held`` past its ``__get__``.

    Without a path of the first kind it was met as an object of its own.
    """

    obj: object
    name: str
    path: Source | None
    held: Source

    def shown(self) -> Source:
        """A path to what it is where it binds nothing."""
        return self.path or self.held

    def of(self, name: str, *, shows_itself: bool) -> Source:
        """The path of an attribute of its own, by way of the class where that gives what has the attribute."""
        return AttrSource(self.path if self.path is not None and shows_itself else self.held, name)


def member_of(ctx: Tracer, owner: type, name: str, member: object, path: Source | None = None) -> Member:
    home = ctx.literal(owner).source
    assert home is not None
    return Member(member, name, path or AttrSource(home, name), GetitemSource(AttrSource(home, "__dict__"), name))


def get(ctx: Tracer, member: Member, receiver: Value | None, cls: Value) -> Value:
    """A member as it is where an object is asked, or ``cls`` itself without one (``tp_descr_get``)."""
    kind = type(member.obj)
    slot = held_by(kind, "__get__", NOTHING)
    ctx.rely_on_member(kind, "__get__")
    if slot is NOTHING:
        return ctx.wrap(member.obj, member.shown())
    if not is_of_c(kind, "__get__", slot):
        # CPython calls what the class holds, which it does not bind.
        descriptor = ctx.wrap(member.obj, member.held)
        return ctx.call(_unbound(ctx, kind, "__get__", slot), [descriptor, receiver or NONE, cls])
    if slot in _BINDERS:
        return _BINDERS[slot](ctx, member, receiver, cls)
    words = f"the attribute `{member.name}` of {(receiver or cls).describe()} is a descriptor of kind {kind.__name__}"
    return ctx.stop(Kind.DESCRIPTOR, words)


def _unbound(ctx: Tracer, cls: type, name: str, member: object) -> Value:
    """The value of what a class holds by a special name."""
    if isinstance(member, FunctionType):
        return ctx.literal(member)
    owner = next(base for base in cls.__mro__ if name in vars(base))
    return ctx.wrap(member, member_of(ctx, owner, name, member).held)


def put(ctx: Tracer, member: Member, receiver: Value, value: Value | None) -> None:
    """Assigns an attribute through its descriptor, or deletes it where ``value`` is None (``tp_descr_set``)."""
    kind, name = type(member.obj), "__set__" if value is not None else "__delete__"
    slot = held_by(kind, name, NOTHING)
    ctx.rely_on_member(kind, name)
    # One slot is for both: a class with one of the methods takes the other question, too, and then misses it.
    if slot is NOTHING:
        ctx.throw(AttributeError, name)
    if not is_of_c(kind, name, slot):
        method = special(ctx, ctx.wrap(member.obj, member.held), name)
        assert method is not None  # one that is blocked has stopped the graph
        ctx.call(method, [receiver] if value is None else [receiver, value])
    elif slot in (_SET_PROPERTY, _DELETE_PROPERTY):
        put_property(ctx, member, receiver, value)
    else:
        words = f"the attribute `{member.name}` of {receiver.describe()} is assigned through a descriptor"
        ctx.stop(Kind.DESCRIPTOR, words)


def special(ctx: Tracer, value: Value, name: str) -> Value | None:
    """A special method, looked up on the type as Python does; None without one."""
    cls = value.python_type()
    ctx.rely_on_member(cls, name)
    for owner in cls.__mro__:
        if name in vars(owner):
            found = vars(owner)[name]
            if found is None:
                stop_at_blocked(ctx, value, name)
            return bind(ctx, found, owner, name, value)
    return None


def stop_at_blocked(ctx: Tracer, value: Value, name: str) -> NoReturn:
    """Leaves to CPython what asks for a special method that a class blocks by None: each operation has its words."""
    ctx.stop(Kind.SPECIAL_METHOD, f"`{name}` of {value.describe()} is None, which says that there is none")


def bind(ctx: Tracer, member: object, owner: type, name: str, receiver: Value, path: Source | None = None) -> Value:
    """A member of an object's class, as the object has it."""
    return get(ctx, member_of(ctx, owner, name, member, path), receiver, ctx.literal(receiver.python_type()))


# -- what C does -------------------------------------------------------------------------------------------------


def _as_method(ctx: Tracer, member: Member, receiver: Value | None, cls: Value) -> Value:
    function = ctx.wrap(member.obj, member.shown())
    return function if receiver is None else BoundMethod(receiver, function)


def _as_method_of_c(ctx: Tracer, member: Member, receiver: Value | None, cls: Value) -> Value:
    # A function of C that is read through a class stays unbound.
    return ctx.literal(member.obj) if receiver is None else BuiltinValue(member.obj, receiver=receiver)


def _as_memoised(ctx: Tracer, member: Member, receiver: Value | None, cls: Value) -> Value:
    return ctx.wrap(member.obj, member.shown()) if receiver is None else BuiltinValue(member.obj, receiver=receiver)


def _as_it_is(ctx: Tracer, member: Member, receiver: Value | None, cls: Value) -> Value:
    return ctx.wrap(member.obj, member.shown())


def _of_staticmethod(ctx: Tracer, member: Member, receiver: Value | None, cls: Value) -> Value:
    shown = member.path if member.path is not None and not binds_by_code(member.obj) else None
    return ctx.wrap(_FUNC_OF_STATIC.__get__(member.obj), shown or AttrSource(member.held, "__func__"))


def _of_classmethod(ctx: Tracer, member: Member, receiver: Value | None, cls: Value) -> Value:
    wrapped = _FUNC_OF_CLASS.__get__(member.obj)
    is_plain = isinstance(wrapped, FunctionType) and not binds_by_code(member.obj)  # read from the class it is a method
    path = member.of("__func__", shows_itself=is_plain)
    # Up to 3.12 it binds what it holds by that one's own slot, to the class.
    if not is_plain and not PY313 and binds(wrapped):
        return get(ctx, Member(wrapped, member.name, None, path), cls, cls)
    return BoundMethod(cls, ctx.wrap(wrapped, path))


def _of_property(ctx: Tracer, member: Member, receiver: Value | None, cls: Value) -> Value:
    if receiver is None:
        return ctx.wrap(member.obj, member.held if binds_by_code(member.obj) else member.shown())
    function = _FGET.__get__(member.obj)
    if function is None:
        throw_as(ctx, _GET_PROPERTY, member.obj, _like(receiver))
    path = member.of("fget", shows_itself=not binds_by_code(member.obj))
    return ctx.call(ctx.wrap(function, path), [receiver])


def put_property(ctx: Tracer, member: Member, receiver: Value, value: Value | None) -> None:
    """Assigns or deletes an attribute as ``property`` does."""
    function = (_FDEL if value is None else _FSET).__get__(member.obj)
    operands = [receiver] if value is None else [receiver, value]
    if function is None and value is None:
        throw_as(ctx, _DELETE_PROPERTY, member.obj, _like(receiver))
    elif function is None:
        throw_as(ctx, _SET_PROPERTY, member.obj, _like(receiver), None)
    ctx.call(ctx.literal(function), operands)


def _like(receiver: Value) -> object:
    """An object of a class of the same name, for CPython's errors."""
    name = receiver.python_type().__qualname__
    return type("Like", (), {"__qualname__": name})()


_GET_PROPERTY = vars(property)["__get__"]
_SET_PROPERTY = vars(property)["__set__"]
_DELETE_PROPERTY = vars(property)["__delete__"]
_FUNC_OF_STATIC, _FUNC_OF_CLASS = (vars(kind)["__func__"] for kind in (staticmethod, classmethod))
_FGET, _FSET, _FDEL = (vars(property)[name] for name in ("fget", "fset", "fdel"))

_Binder = Callable[[Tracer, Member, Value | None, Value], Value]
_BINDERS: Mapping[object, _Binder] = {
    **{vars(kind)["__get__"]: _as_method for kind in (FunctionType, Region, Outside)},
    **{vars(kind)["__get__"]: _as_method_of_c for kind in (MethodDescriptorType, WrapperDescriptorType)},
    vars(MethodType).get("__get__"): _as_it_is,
    vars(functools._lru_cache_wrapper)["__get__"]: _as_memoised,
    vars(staticmethod)["__get__"]: _of_staticmethod,
    vars(classmethod)["__get__"]: _of_classmethod,
    _GET_PROPERTY: _of_property,
}
"""By the ``__get__`` of their type, what members become."""


def bound_by(slot: object) -> _Binder:
    return _BINDERS[slot]
