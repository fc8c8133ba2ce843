"""Calls of what C does in the slots of descriptors, as classes that extend ``property`` and its kin make them."""

from __future__ import annotations

from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.guards.sources import AttrSource
from capture.reasons import Kind
from capture.values.base import Tracer, Value, bind_special
from capture.values.constant import NONE, ConstantValue, is_none
from capture.values.descriptors import Member, bound_by, put_property, special
from capture.values.user_object import UserObject


@rule(bind_special, kinds=(None, ConstantValue))
def special_method(ctx: Tracer, value: Value, name: ConstantValue) -> Value:
    found = special(ctx, value, name.value)
    return NONE if found is None else found


def _as_member(ctx: Tracer, descriptor: UserObject) -> Member:
    """A real descriptor as a member; its paths begin at the object, as nobody knows which class has it."""
    if descriptor.obj is None or descriptor.source is None:
        ctx.stop(Kind.DESCRIPTOR, f"{descriptor.describe()}, which was made here, is asked what it is for an object")
    return Member(descriptor.obj, "it", None, descriptor.source)


def _gets(kind: type) -> None:
    """The rule for ``__get__`` of ``property`` or its kin."""

    slot = vars(kind)["__get__"]

    @rule(slot, kinds=(UserObject, None))
    def get_by_c(ctx: World, descriptor: UserObject, receiver: Value, cls: Value = NONE) -> Value:
        owner = ctx.literal(receiver.python_type()) if is_none(cls) else cls
        member = _as_member(ctx, descriptor)
        return bound_by(slot)(ctx, member, None if is_none(receiver) else receiver, owner)


for _kind in (property, classmethod, staticmethod):
    _gets(_kind)


@rule(property.__set__, kinds=(UserObject, None, None))
def set_property(ctx: World, descriptor: UserObject, receiver: Value, value: Value) -> Value:
    put_property(ctx, _as_member(ctx, descriptor), receiver, value)
    return NONE


@rule(property.__delete__, kinds=(UserObject, None))
def delete_property(ctx: World, descriptor: UserObject, receiver: Value) -> Value:
    put_property(ctx, _as_member(ctx, descriptor), receiver, None)
    return NONE


@rule(staticmethod.__call__, kinds=(UserObject,))
def call_static_method(ctx: World, method: UserObject, /, *args: Value, **kwargs: Value) -> Value:
    held = _as_member(ctx, method).held
    return ctx.call(ctx.wrap(method.obj.__func__, AttrSource(held, "__func__")), args, kwargs)
