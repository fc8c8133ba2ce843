"""``copy.copy`` and ``copy.deepcopy`` of containers and of objects that leave copying to Python."""

from __future__ import annotations

import collections
import copy
import copyreg
from collections.abc import Callable
from types import FunctionType, MappingProxyType

from capture.evaluator.builtin_rules.registry import rule
from capture.guards.kinds import GuardKind
from capture.guards.sources import ConstSource, DictSource, ObjectKeySource
from capture.reasons import Kind
from capture.values.base import Tracer, Value, held_by, realize, settled
from capture.values.classes import ClassValue, PythonModuleValue
from capture.values.constant import NONE, ConstantValue, is_none
from capture.values.container_object import ContainerObject
from capture.values.function import BoundMethod, BuiltinValue, FunctionValue
from capture.values.mapping import DictValue, key_of
from capture.values.module import ModuleValue
from capture.values.own_methods import is_asked_for_what_is_missing, own_method
from capture.values.sequence import ListValue, SetValue, TupleValue
from capture.values.user_object import UserObject

# By the identity of what was copied, which each entry keeps alive: a hook may let go of it and make others.
_Memo = dict[int, tuple[Value, Value]]
_Item = Callable[[Value], Value]
_SHARED = (ConstantValue, FunctionValue, BuiltinValue, ClassValue, PythonModuleValue)
_STEPS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
_HOOKS = ("__copy__", "__deepcopy__", *_STEPS)


@rule(copy.copy, kinds=((DictValue, ListValue, SetValue, TupleValue, UserObject, ConstantValue),))
def shallow_copy(ctx: Tracer, x: Value) -> Value:
    return _copied(ctx, x, lambda item: item, None)


@rule(copy.deepcopy, kinds=((DictValue, ListValue, SetValue, TupleValue, UserObject, ConstantValue),))
def deep_copy(ctx: Tracer, x: Value, memo: Value | None = None) -> Value:
    """``copy.deepcopy``: objects that are one stay one, by a memo of ours."""
    # It would be filled with objects, and the program may read it.
    if memo is not None:
        ctx.stop(Kind.COPY, "`copy.deepcopy` is called with a memo")
    known: _Memo = {}

    def item(part: Value) -> Value:
        part = realize(ctx, part)
        if id(part) not in known:
            known[id(part)] = part, _copied(ctx, part, item, known)
        return known[id(part)][1]

    return item(x)


def _copied(ctx: Tracer, value: Value, item: _Item, known: _Memo | None) -> Value:
    """The copy of one value, whose parts are copied by `item`; a deep one where there is a memo."""
    if isinstance(value, (UserObject, ContainerObject)) or (isinstance(value, TupleValue) and value.cls is not tuple):
        hook = _hook(ctx, value, deep=known is not None)
        if hook is not None:
            return ctx.call(*hook)
        if isinstance(value, TupleValue):
            return _copied_record(ctx, value, item)
        return _copied_object(ctx, value, item, known)
    if isinstance(value, TupleValue):
        return _copied_tuple(value, item, known)
    if isinstance(value, BoundMethod):
        return BoundMethod(item(value.receiver), value.function)
    if isinstance(value, _SHARED):
        return _copied_constant(ctx, value, item, known)
    if value.python_type() is frozenset and known is None:  # immutable: itself
        return value
    return _copied_container(ctx, value, item, known)


def _hook(ctx: Tracer, value: Value, *, deep: bool) -> tuple[Value, list[Value]] | None:
    """The program's way to copy, with what it is given: of the class, or for a deep copy whatever the object has."""
    asked, name = (value, "__deepcopy__") if deep else (ctx.literal(value.python_type()), "__copy__")
    found = realize(ctx, ctx.call_builtin(getattr, [asked, ConstantValue(name), NONE], {}))
    return None if is_none(found) else (found, [DictValue() if deep else value])


def _copied_tuple(value: TupleValue, item: _Item, known: _Memo | None) -> Value:
    items = [item(part) for part in value.items]
    if known is not None and id(value) in known:  # an item led back here, and has the copy
        return known[id(value)][1]
    # As ``copy`` does: a tuple of the same items is the tuple itself.
    return value if all(map(_is, items, value.items)) else TupleValue(items)


def _copied_record(ctx: Tracer, value: TupleValue, item: _Item) -> Value:
    """A copy of a named tuple and its like, made by the class of what its ``__getnewargs__`` gives."""
    cls = value.cls
    named = hasattr(cls, "_fields")
    own = [held_by(cls, name) for name in _STEPS if _is_own(cls, name)]
    if named:
        own = [member for member in own if member.__code__.co_filename != collections.__file__]
    if own or is_asked_for_what_is_missing(type(cls)) or is_asked_for_what_is_missing(cls):
        ctx.stop(Kind.COPY, f"{value.describe()} is copied")
    _rely_on_no_reducer(ctx, value)
    if value.held is not None and value.source is not None:
        ctx.guard(DictSource(value.source), GuardKind.KEYS, tuple(value.held))
    if value.held:
        ctx.stop(Kind.COPY, f"{value.describe()} is copied, which has attributes beside its items")
    items = [item(part) for part in value.items]
    new: object = cls.__new__
    if not isinstance(new, FunctionType):
        return TupleValue(items, cls=cls)
    return ctx.call(ctx.literal(new), [ctx.literal(cls), *(items if named else [TupleValue(items)])])


def _copied_constant(ctx: Tracer, value: Value, item: _Item, known: _Memo | None) -> Value:
    """The copy of what is immutable: itself, but for a frozenset, of which a deep copy makes another one."""
    if not isinstance(value, ConstantValue):
        return value
    if (method := own_method(value.value, *_HOOKS)) is not None:
        ctx.stop(Kind.COPY, f"{value.describe()} is copied, which has a `{method}` of its own")
    if known is None or type(value.value) is not frozenset:
        return value
    return ctx.call_builtin(frozenset, [ListValue([item(part) for part in value.elements(ctx)])], {})


def _copied_container(ctx: Tracer, value: Value, item: _Item, known: _Memo | None) -> Value:
    made: Value
    if isinstance(value, ListValue):
        made = ListValue([], cls=value.cls)
        made.maxlen = value.maxlen
    elif isinstance(value, DictValue) and value.cls is not MappingProxyType:
        made = DictValue(cls=value.cls)
    elif isinstance(value, SetValue):
        made = SetValue({}, cls=value.cls)
    else:
        return ctx.stop(Kind.COPY, f"{value.describe()} is copied")
    if known is not None and value.python_type() is not frozenset:  # before its items: one of them may lead back here
        known[id(value)] = value, made
    _fill(ctx, made, value, item)
    return made


def _is(left: Value, right: Value) -> bool:
    """True for the very same object."""
    left, right = settled(left), settled(right)
    return left is right or left.identity() is right.identity()


def _fill(ctx: Tracer, made: Value, value: Value, item: _Item) -> None:
    """Gives a new container copies of the items of the old one."""
    if isinstance(made, ListValue) and isinstance(value, ListValue):
        made.items = [item(part) for part in value.items]
    elif isinstance(made, DictValue) and isinstance(value, DictValue):
        if value.default_factory is not None:
            made.default_factory = item(value.default_factory)
        made.attributes = made.assigned = {name: item(held) for name, held in value.attributes.items()}
        for hashed, (key, held) in value.entries.items():
            # A dict's value is copied before its key, in others the key.
            copies = [item(part) for part in ((held, key) if value.cls is dict else (key, held))]
            copied, copied_item = copies[::-1] if value.cls is dict else copies
            made.entries[_key_of_copy(ctx, hashed, key, copied)] = (copied, copied_item)
    elif isinstance(made, SetValue) and isinstance(value, SetValue):
        made.orders = value.orders
        for hashed, part in value.entries.items():
            copied = item(part)
            made.entries[_key_of_copy(ctx, hashed, part, copied)] = copied


def _key_of_copy(ctx: Tracer, hashed: object, key: Value, copied: Value) -> object:
    """The key under which the copy of a key is held: the same where it is no other object."""
    return hashed if _is(settled(key), settled(copied)) else key_of(ctx, copied)


def _copied_object(ctx: Tracer, value: UserObject, item: _Item, known: _Memo | None) -> Value:
    """A copy of an object as Python makes it where its class says nothing: a new one with the same attributes."""
    # Made by class statements alone, without slots: then attributes are all that it has.
    plain = type(value) is UserObject and value.cls.__flags__ & (1 << 9) and held_by(value.cls, "__slots__") is None
    plain = plain and all(base is object or base.__flags__ & (1 << 9) for base in value.cls.__mro__)
    own = any(_is_own(value.cls, name) for name in _STEPS) or is_asked_for_what_is_missing(type(value.cls))
    # Copying it may run code, of the class or of C, that no value tells of.
    if isinstance(value, ModuleValue) or not plain or own:
        return ctx.stop(Kind.COPY, f"{value.describe()} is copied")
    _rely_on_no_reducer(ctx, value)
    made = UserObject(value.cls)
    made.class_source = ctx.literal(value.cls).source
    if known is not None:
        known[id(value)] = value, made
    attributes = value.attribute(ctx, "__dict__")
    assert isinstance(attributes, DictValue)
    if not attributes.entries.keys().isdisjoint(_STEPS):
        ctx.stop(Kind.COPY, f"{value.describe()} is copied, which has its own way to be copied")
    # No ``__init__`` runs: copying goes around it.
    state = {name: item(held) for name, (_, held) in attributes.entries.items()}
    # A ``__getattr__`` is asked for this, of the copy while it has no attributes.
    if state and is_asked_for_what_is_missing(value.cls):
        has_way = ctx.call_builtin(hasattr, [made, ConstantValue("__setstate__")], {})
        if realize(ctx, has_way).truth(ctx):
            ctx.stop(Kind.COPY, f"{value.describe()} is copied, which has its own way to be copied")
    made.overlay.update(state)
    return made


def _rely_on_no_reducer(ctx: Tracer, value: UserObject | TupleValue) -> None:
    """Programs register functions of their own with `copyreg`, which copying asks before the class."""
    if value.cls in copyreg.dispatch_table:
        ctx.stop(Kind.COPY, f"{value.describe()} is copied, by a function that is registered with `copyreg`")
    ctx.guard(ObjectKeySource(_REDUCERS, value.cls), GuardKind.ABSENT)


_REDUCERS = ConstSource(copyreg.dispatch_table, "copyreg.dispatch_table")


def _is_own(cls: type, name: str) -> bool:
    return isinstance(held_by(cls, name), FunctionType)
