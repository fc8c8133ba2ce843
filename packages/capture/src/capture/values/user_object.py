"""Instances of classes with attributes: the user's, the library's, and those made by the code under evaluation.

Reading follows Python's order: data descriptors of the type, the instance's ``__dict__``, the rest of the type,
``__getattr__``.  Writes go to an overlay that is replayed when the frame leaves.
"""

from __future__ import annotations

import sys
import threading
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from capture.bytecode.versions import NO_DICT, PY313
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, DictSource, HiddenEntrySource, KeySource, Source, TypeSource
from capture.reasons import Kind
from capture.values.base import (
    LazyValue,
    Tracer,
    Value,
    module_name,
    or_else_asked,
    realize,
    rely_on_no_member,
    type_name,
)
from capture.values.classes import is_made_by_code, is_set_by_code, written_member
from capture.values.constant import ConstantValue
from capture.values.descriptors import bind, member_of, put, stop_at_blocked
from capture.values.instance_dict import InstanceDict
from capture.values.slots import has_code_for, is_read_first, takes_assignments

_MISSING = object()
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType, types.GenericAlias)


class UserObject(Value):
    """``obj`` is the real object, or None where the evaluated code made this one."""

    def __init__(self, cls: type, obj: Any = None, source: Source | None = None) -> None:
        self.cls = cls
        self.is_of_thread = issubclass(cls, threading.local)
        self.obj = obj
        self.source = source
        # What was written, by name; None where it was deleted.
        self.overlay: dict[str, Value | None] = {}
        self.deleted: set[str] = set()  # what the real object has, also where it was written again, and comes last
        self.new_args: list[Value] = []
        self.class_source: Source | None = None
        # The value of its ``__dict__``, once it was read: one object, as in Python.
        self._view: InstanceDict | None = None
        # Known once all keys of its ``__dict__`` were seen to be plain texts, which compare without code.
        self._names_are_texts = False
        # Paths are compared and keep their hashes: one object for each.
        self._entries: dict[str, Source] = {}

    def python_type(self) -> type:
        return self.cls

    def identity(self) -> object:
        return self.obj if self.obj is not None else self

    def let_go(self) -> None:
        """Empties what may lead back here, by way of the overlay or of the view."""
        self.overlay.clear()
        self._view = None

    # -- reading -------------------------------------------------------------------------------------------------

    def attribute(self, ctx: Tracer, name: str) -> Value:
        found = or_else_asked(ctx, self, name, lambda: self._read(ctx, name))
        return found if found is not None else self._fallback(ctx, name)

    def _read(self, ctx: Tracer, name: str) -> Value | None:
        """The attribute by ``__getattribute__``; None where nobody has one of that name."""
        ctx.rely_on_member(self.cls, name)
        # Its own ``__getattribute__`` runs first, and may call ``object``'s (``plain_attribute``).
        if has_code_for(self.cls, "__getattribute__"):
            getter = self.special(ctx, "__getattribute__")
            assert getter is not None  # one that is blocked has stopped the graph
            return ctx.call(getter, [ConstantValue(name)])
        # The type of a weak proxy, or of `list[int]`, is not that of what it shows: what is found on it may be wrong.
        if issubclass(self.cls, _PROXIES):
            ctx.stop(Kind.ATTRIBUTE, f"`{name}` of {self.describe()}, which stands for another object, is read")
        return self.plain_attribute(ctx, name)

    def plain_attribute(self, ctx: Tracer, name: str) -> Value | None:
        """``object.__getattribute__``, without the error."""
        ctx.rely_on_member(self.cls, name)
        owner, member = lookup(self.cls, name)
        if name == "__class__" and owner is object:
            return ctx.literal(self.cls)
        # A getter for classes that a statement makes; for some of C's (``SimpleNamespace``) it is a member like a slot.
        if name == "__dict__" and isinstance(member, (GetSetDescriptorType, MemberDescriptorType)):
            return self.instance_view(ctx)
        # Properties and slots come before the instance's dict; functions and plain members behind it.
        if is_read_first(member):
            return self._data_descriptor(ctx, owner, member, name)
        if name in self.overlay:
            written = self.overlay[name]
            if written is not None:
                return realize(ctx, written)
        else:
            held = self._held(ctx, name)
            if held is not _MISSING:
                return ctx.wrap(held, self._entry(name))
        written = written_member(ctx, self.cls.__mro__, name)
        if written is not None:
            # The class's member shows only because the instance has none of that name: relied on.
            self.absent(ctx, name)
            return realize(ctx, written)
        if member is _MISSING:
            return None
        self.absent(ctx, name)
        return bind(ctx, member, owner, name, self, self._class_path(ctx, name))

    def _data_descriptor(self, ctx: Tracer, owner: type, member: object, name: str) -> Value | None:
        """The attribute by a property or a slot; None for an empty slot."""
        # A property, or another descriptor; what follows is a slot.
        if not isinstance(member, MemberDescriptorType):
            return bind(ctx, member, owner, name, self, self._class_path(ctx, name))
        if name in self.overlay:
            written = self.overlay[name]
            return None if written is None else realize(ctx, written)
        if self.source is None:
            return None
        # A guard would read the slot through that code, in every call.
        if has_code_for(self.cls, "__getattribute__"):
            ctx.stop(Kind.ATTRIBUTE, f"the slot `{name}` of {self.describe()} is read behind its `__getattribute__`")
        try:
            # Past any code of the class.
            held = member.__get__(self.obj)
        except AttributeError:
            self.absent(ctx, name)
            return None
        except TypeError as error:  # a descriptor of some other class
            ctx.throw(TypeError, *error.args)
        return ctx.wrap(held, AttrSource(self.source, name))

    def _fallback(self, ctx: Tracer, name: str) -> Value:
        """The answer of ``__getattr__``, or the error of a name that nobody has."""
        self.absent(ctx, name)
        if (handler := self.special(ctx, "__getattr__")) is not None:
            return ctx.call(handler, [ConstantValue(name)])
        return ctx.throw(AttributeError, f"'{self._name_for_errors(name)}' object has no attribute '{name}'")

    def _name_for_errors(self, attribute: str) -> str:
        """The name of the class in errors: from 3.13 on an empty slot says where its class is from."""
        module = module_name(self.cls)
        full = PY313 and module not in ("__main__", "builtins")
        is_slot = full and isinstance(lookup(self.cls, attribute)[1], MemberDescriptorType)
        return f"{module}.{self.cls.__qualname__}" if is_slot else type_name(self.cls)

    def absent(self, ctx: Tracer, name: str) -> None:
        """Relies on the object having no attribute of its own by this name, nor its class where that has none."""
        _, member = lookup(self.cls, name)
        if member is _MISSING:
            rely_on_no_member(ctx, self.cls.__mro__, name)
        # Other threads may have an attribute of their own there.
        elif self.is_of_thread and name not in self.overlay and not isinstance(member, FunctionType):
            ctx.stop(Kind.ATTRIBUTE, f"`{name}` of {self.describe()} is what its class says in some threads")
        if self.source is None or name in self.overlay:
            return
        if isinstance(member, MemberDescriptorType):
            # The guard reads the slot as the program does, and would run that code.
            if hasattr(self.cls, "__getattr__"):
                ctx.stop(
                    Kind.ATTRIBUTE, f"the slot `{name}` of {self.describe()} is empty, so that `__getattr__` is asked"
                )
            ctx.guard(AttrSource(self.source, name), GuardKind.ABSENT)
        elif instance_dict(self.obj) is not None:
            ctx.guard(self._entry(name), GuardKind.ABSENT)

    def _instance_dict(self) -> dict[str, object]:
        return instance_dict(self.obj) or {}

    def _held(self, ctx: Tracer, name: str) -> object:
        """The entry of the real object's ``__dict__``; breaks the graph if keys are no texts, and may compare by
        code."""
        held = self._instance_dict()
        if not self._names_are_texts:
            self._names_are_texts = all(type(key) is str for key in held)
            if not self._names_are_texts:
                ctx.stop(Kind.ATTRIBUTE, f"`{name}` is looked up among objects in the `__dict__` of {self.describe()}")
        return held.get(name, _MISSING)

    def _entry(self, name: str) -> Source:
        known = self._entries.get(name)
        if known is None:
            known = self._entries[name] = self._path_of_entry(name)
        return known

    def _path_of_entry(self, name: str) -> Source:
        """The path of an attribute of the object's own, by which the engine finds what Python finds there."""
        assert self.source is not None
        if self.is_of_thread:  # each has a ``__dict__`` of its own, which only the object can find
            return AttrSource(self.source, name)
        if self._runs_code_for(name):
            return HiddenEntrySource(DictSource(self.source), name)
        return KeySource(DictSource(self.source), name)

    def _runs_code_for(self, name: str) -> bool:
        """True if reading the attribute asks the class first."""
        return has_code_for(self.cls, "__getattribute__") or is_read_first(lookup(self.cls, name)[1])

    def _class_path(self, ctx: Tracer, name: str) -> Source | None:
        """The path of a member of its class, by the class where that has a path, else by the object's type."""
        known = ctx.literal(self.cls).source
        if known is None and self.source is not None:
            known = TypeSource(self.source)
        return None if known is None else AttrSource(known, name)

    def instance_view(self, ctx: Tracer) -> Value:
        """The ``__dict__``, whose names are relied on in their order."""
        if self.is_of_thread:
            ctx.stop(Kind.ATTRIBUTE, f"the `__dict__` of {self.describe()} is read")
        if self._view is None:
            held = instance_dict(self.obj) if self.source is not None else None
            if held is not None:
                assert self.source is not None
                # Met by itself before: a write to either of the two ends the graph (`dicts_of_objects`).
                if (met := ctx.known(held)) is not None:
                    return met
                ctx.guard(DictSource(self.source), GuardKind.KEYS, tuple(held))
            self._view = InstanceDict(self)
            if held is not None:
                ctx.stand_for(held, self._view)
        return self._view

    def instance_entries(self) -> Iterator[tuple[str, Value]]:
        """The names and values that ``__dict__`` holds now, in its order."""
        held = self._instance_dict() if self.source is not None else {}
        for name, obj in held.items():
            if name not in self.overlay:
                yield name, LazyValue(obj, self._entry(name))
            # Written again in place: it keeps its position.
            elif (written := self.overlay[name]) is not None and name not in self.deleted:
                yield name, written
        # New names come last, and so do those that were deleted in between.
        for name, value in self.overlay.items():
            if value is not None and (name not in held or name in self.deleted) and not is_kept_in_c(self.cls, name):
                yield name, value

    # -- writing -------------------------------------------------------------------------------------------------

    def set_attribute(self, ctx: Tracer, name: str, value: Value | None) -> None:
        if not is_set_by_code(ctx, self, self.cls, name, value):
            self.plain_set(ctx, name, value)

    def plain_set(self, ctx: Tracer, name: str, value: Value | None) -> None:
        """``object.__setattr__`` and ``object.__delattr__``."""
        ctx.rely_on_member(self.cls, name)
        owner, member = lookup(self.cls, name)
        # A slot of a class statement only keeps; one of C (``__class__``, fields of exceptions) may check or convert.
        slot = isinstance(member, MemberDescriptorType)
        if takes_assignments(member) and not (slot and is_made_by_code(owner)):
            put(ctx, member_of(ctx, owner, name, member), self, value)
            return
        # ``__slots__`` without a ``__dict__``.
        if not slot and not self.cls.__dictoffset__ and not self.is_of_thread:
            ctx.throw(AttributeError, _no_place(self.cls, name, member))
        if value is None and not self._has_own(name):
            self.absent(ctx, name)
            ctx.throw(AttributeError, name if slot else f"'{type_name(self.cls)}' object has no attribute '{name}'")
        ctx.changed(self)
        if value is None:
            self.forget(ctx, name)
        else:
            self.keep(name, value)

    def keep(self, name: str, value: Value) -> None:
        """Writes to the overlay, in the order in which the object's ``__dict__`` would have it."""
        if self.overlay.get(name, value) is None:  # what was deleted comes last
            del self.overlay[name]
        self.overlay[name] = value

    def _has_own(self, name: str) -> bool:
        """True if it has this attribute now, apart from its class."""
        if name in self.overlay:
            return self.overlay[name] is not None
        return self.source is not None and self._is_held(name)

    def forget(self, ctx: Tracer, name: str) -> None:
        """Deletes the attribute; one that only this function gave the object was never there."""
        if self.source is None or self._is_held(name):
            self.overlay[name] = None
            if self.source is not None:
                self.deleted.add(name)
            return
        del self.overlay[name]
        self.absent(ctx, name)

    def _is_held(self, name: str) -> bool:
        """True if the real object has an attribute of its own by this name."""
        _, member = lookup(self.cls, name)
        if isinstance(member, MemberDescriptorType):
            return is_filled(member, self.obj)
        return name in self._instance_dict()

    def current_names(self) -> list[str]:
        """The names in the instance's dict as they are by now, in its order."""
        held = self._instance_dict()
        names = [name for name in held if self.overlay.get(name, self) is not None and name not in self.deleted]
        written = (name for name, value in self.overlay.items() if value is not None and name not in names)
        return names + [name for name in written if not is_kept_in_c(self.cls, name)]

    # -- the rest of Python's questions --------------------------------------------------------------------------

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        method = self.special(ctx, "__call__")
        if method is None:
            ctx.throw(TypeError, f"'{type_name(self.cls)}' object is not callable")
        return ctx.call(method, args, kwargs)

    def special(self, ctx: Tracer, name: str) -> Value | None:
        """A special method, looked up on the type as Python does."""
        ctx.rely_on_member(self.cls, name)
        owner, member = lookup(self.cls, name)
        if member is _MISSING:
            return None
        if member is None:
            stop_at_blocked(ctx, self, name)
        return bind(ctx, member, owner, name, self, self._class_path(ctx, name))

    def answer(self, ctx: Tracer, name: str, wanted: type, *args: Value) -> Value | None:
        """The answer of a special method; None without one.

        Python itself judges answers of another type than it wants.
        """
        method = self.special(ctx, name)
        if method is None:
            return None
        said = realize(ctx, ctx.call(method, args))
        fits = said.python_type() is wanted
        if fits and name == "__len__" and isinstance(said, ConstantValue):
            fits = 0 <= said.value <= sys.maxsize
        if not fits:
            ctx.stop(Kind.SPECIAL_METHOD, f"`{name}` of {self.describe()} gives {said.describe()}")
        return said

    def truth(self, ctx: Tracer) -> bool:
        """``__bool__``, then ``__len__``; an object with neither is true."""
        said = self.answer(ctx, "__bool__", bool) or self.answer(ctx, "__len__", int)
        return said is None or said.truth(ctx)

    def parts(self) -> Iterator[Value]:
        yield from self.new_args
        for value in self.overlay.values():
            if value is not None:
                yield value

    def describe(self) -> str:
        name = f"`{self.source.expression()}`, " if self.source else ""
        return f"{name}an object of class `{self.cls.__qualname__}`"


def _no_place(cls: type, name: str, member: object) -> str:
    """CPython's error where an object has no ``__dict__`` to keep an attribute in."""
    if member is not _MISSING:
        return f"'{type_name(cls)}' object attribute '{name}' is read-only"
    return f"'{type_name(cls)}' object has no attribute '{name}'{NO_DICT}"


def is_kept_in_c(cls: type, name: str) -> bool:
    """True for a slot and what is like one, ``__context__`` of an exception: no entry of the object's ``__dict__``."""
    return isinstance(lookup(cls, name)[1], (MemberDescriptorType, GetSetDescriptorType))


def is_filled(slot: MemberDescriptorType, obj: object) -> bool:
    """True if there is something in a slot, asked past any ``__getattr__``."""
    try:
        slot.__get__(obj)
    except (AttributeError, TypeError):  # the latter of another class's slot
        return False
    return True


def instance_dict(obj: Any) -> dict[str, object] | None:
    """The ``__dict__`` of an object, read past any ``__getattribute__`` of its class; None where it has none."""
    try:
        if issubclass(type(obj), threading.local):
            return threading.local.__getattribute__(obj, "__dict__")
        return object.__getattribute__(obj, "__dict__")
    except (AttributeError, TypeError):  # the latter of a class whose bases disagree on who has one
        return None


def lookup(cls: type, name: str) -> tuple[type, Any]:
    """The class that defines ``name`` and what it holds there, unbound."""
    for owner in cls.__mro__:
        if name in vars(owner):
            return owner, vars(owner)[name]
    return cls, _MISSING


def is_missing(member: object) -> bool:
    return member is _MISSING
