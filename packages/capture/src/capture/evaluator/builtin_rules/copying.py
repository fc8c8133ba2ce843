"""``copy.copy`` and ``copy.deepcopy`` of containers and of objects that leave copying to Python."""

from __future__ import annotations

import copy
import copyreg
from types import FunctionType
from typing import Any

from capture.evaluator.builtin_rules.registry import rule
from capture.guards.kinds import GuardKind
from capture.guards.sources import ConstSource, ObjectKeySource
from capture.reasons import Kind
from capture.values.base import Tracer, Value, held_by, realize, settled
from capture.values.classes import ClassValue, PythonModuleValue
from capture.values.constant import ConstantValue
from capture.values.container_object import ContainerObject
from capture.values.function import BoundMethod, BuiltinValue, FunctionValue
from capture.values.mapping import DictValue
from capture.values.module import ModuleValue
from capture.values.own_methods import is_asked_for_what_is_missing
from capture.values.sequence import ListValue, SetValue, TupleValue
from capture.values.user_object import UserObject

# By the identity of what was copied, which each entry keeps alive: a hook may let go of it and make others.
_Memo = dict[int, tuple[Value, Value]]
_SHARED = (ConstantValue, FunctionValue, BuiltinValue, ClassValue, PythonModuleValue)
_PLAIN = (int, float, complex, str, bytes, type(None))
_HOOKS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")


@rule(copy.copy, kinds=((DictValue, ListValue, SetValue, TupleValue, UserObject, ConstantValue),))
def shallow_copy(ctx: Tracer, value: Value) -> Value:
    return _copied(ctx, value, "__copy__", [], lambda item: item)


@rule(copy.deepcopy, kinds=((DictValue, ListValue, SetValue, TupleValue, UserObject, ConstantValue),))
def deep_copy(ctx: Tracer, value: Value, memo: Value | None = None) -> Value:
    """``copy.deepcopy``: objects that are one stay one, by a memo of ours."""
    # It would be filled with objects, and the program may read it.
    if memo is not None:
        ctx.stop(Kind.COPY, "`copy.deepcopy` is called with a memo")
    known: _Memo = {}

    def item(part: Value) -> Value:
        part = realize(ctx, part)
        # Immutable, or copied as themselves: ``deepcopy`` gives the very object.
        if isinstance(part, _SHARED) and not _holds_objects(part):
            return part
        if id(part) not in known:
            known[id(part)] = part, _copied(ctx, part, "__deepcopy__", [DictValue()], item, known)
        return known[id(part)][1]

    return item(value)


def _copied(ctx: Tracer, value: Value, hook: str, extra: list[Value], item: Any, known: _Memo | None = None) -> Value:
    """The copy of one value, whose parts are copied by `item`."""
    if isinstance(value, (UserObject, ContainerObject)):
        method = value.special(ctx, hook)
        return ctx.call(method, extra) if method is not None else _copied_object(ctx, value, item, known)
    if isinstance(value, TupleValue):
        items = [item(part) for part in value.items]
        # As ``copy`` does: a tuple of the same items is the tuple itself.
        same = value.cls is tuple and all(map(_is, items, value.items))
        return value if same else TupleValue(items, cls=value.cls)
    if isinstance(value, BoundMethod):
        return BoundMethod(item(value.receiver), value.function)
    made: Value
    if isinstance(value, ListValue):
        made = ListValue([], cls=value.cls)
    elif isinstance(value, DictValue):
        made = DictValue(cls=value.cls)
    elif isinstance(value, SetValue):
        made = SetValue({}, cls=value.cls)
    else:
        shared = isinstance(value, _SHARED) and (known is None or not _holds_objects(value))
        return value if shared else ctx.stop(Kind.COPY, f"{value.describe()} is copied")
    if known is not None:  # before its items: one of them may lead back here
        known[id(value)] = value, made
    _fill(made, value, item)
    return made


def _holds_objects(value: Value) -> bool:
    """True for a frozenset that a deep copy may take apart."""
    if not isinstance(value, ConstantValue) or type(value.value) is not frozenset:
        return False
    return not all(isinstance(item, _PLAIN) for item in value.value)


def _is(left: Value, right: Value) -> bool:
    """True for the very same object."""
    left, right = settled(left), settled(right)
    return left is right or left.identity() is right.identity()


def _fill(made: Value, value: Value, item: Any) -> None:
    """Gives a new container copies of the items of the old one."""
    if isinstance(made, ListValue) and isinstance(value, ListValue):
        made.maxlen = value.maxlen
        made.items = [item(part) for part in value.items]
    elif isinstance(made, DictValue) and isinstance(value, DictValue):
        made.default_factory = value.default_factory
        made.entries = {hashed: (key, item(held)) for hashed, (key, held) in value.entries.items()}
        made.attributes = made.assigned = {name: item(held) for name, held in value.attributes.items()}
    elif isinstance(made, SetValue) and isinstance(value, SetValue):
        made.entries, made.orders = dict(value.entries), value.orders


def _copied_object(ctx: Tracer, value: UserObject, item: Any, known: _Memo | None) -> Value:
    """A copy of an object as Python makes it where its class says nothing: a new one with the same attributes."""
    # Made by class statements alone, without slots: then attributes are all that it has.
    plain = type(value) is UserObject and value.cls.__flags__ & (1 << 9) and held_by(value.cls, "__slots__") is None
    plain = plain and all(base is object or base.__flags__ & (1 << 9) for base in value.cls.__mro__)
    own = any(_is_own(value.cls, name) for name in _HOOKS) or is_asked_for_what_is_missing(type(value.cls))
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
    # No ``__init__`` runs: copying goes around it.
    made.overlay = {name: item(held) for name, (_, held) in attributes.entries.items()}
    return made


def _rely_on_no_reducer(ctx: Tracer, value: UserObject) -> None:
    """Programs register functions of their own with `copyreg`, which copying asks before the class."""
    if value.cls in copyreg.dispatch_table:
        ctx.stop(Kind.COPY, f"{value.describe()} is copied, by a function that is registered with `copyreg`")
    ctx.guard(ObjectKeySource(_REDUCERS, value.cls), GuardKind.ABSENT)


_REDUCERS = ConstSource(copyreg.dispatch_table, "copyreg.dispatch_table")


def _is_own(cls: type, name: str) -> bool:
    return isinstance(held_by(cls, name), FunctionType)
