"""The objects that members are looked up in: classes, ``super()``, imported modules; and how a found member is bound.

Lookups follow Python's order, and each relies on what it found or did not find: on members by ``ctx.rely_on_member``
(one guard per class, ``values/class_guards``), on a class not having one by ``rely_on_no_member``.  What the
evaluated code assigned to a class comes first (``written_member``), as the real class has it only when the frame
leaves.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

import torch

from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, ConstSource, DictSource, KeySource, Source
from capture.reasons import Kind
from capture.signals import let_through
from capture.values.base import (
    Tracer,
    Value,
    derives,
    held_by,
    module_name,
    or_else_asked,
    realize,
    rely_on_no_member,
    root_package,
    trusted,
)
from capture.values.constant import NONE, ConstantValue
from capture.values.descriptors import bind, get, member_of, special
from capture.values.function import NamespaceValue
from capture.values.instance_dict import dict_to_read
from capture.values.own_methods import is_asked_for_what_is_missing, own_method
from capture.values.slots import binds_by_code, has_code_for, is_descriptor_class, is_read_first, takes_assignments

_OF_C = (GetSetDescriptorType, MemberDescriptorType)


class ClassValue(Value):
    """A class that exists: builtin, torch's or the user's."""

    def __init__(self, cls: type, source: Source | None = None) -> None:
        self.cls = cls
        self.source = source
        # By name; None where it was deleted.
        self.written: dict[str, Value | None] = {}
        self.is_shown = False  # as a mapping, where what is written would be missed

    def python_type(self) -> type:
        return type(self.cls)

    def constant(self) -> Any:
        return self.cls

    def identity(self) -> object:
        return self.cls

    def parts(self) -> Iterator[Value]:
        return (value for value in self.written.values() if value is not None)

    def truth(self, ctx: Tracer) -> bool:
        """Metaclasses may say what it is; enumerations say that they are true."""
        for name in ("__bool__", "__len__"):
            # Asked of the metaclass, as it is the class of the class.
            owner, said = _static_lookup(type(self.cls), name)
            if name in vars(owner) and (said is None or not trusted(owner)):
                ctx.stop(Kind.CLASS, f"`{name}` of its metaclass says whether {self.describe()} is true")
            if said is not None:
                return bool(self.cls)
        return True

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return ctx.call_builtin(self.cls, list(args), dict(kwargs))

    def attribute(self, ctx: Tracer, name: str) -> Value:
        ctx.rely_on_member(self.cls, name)
        ctx.rely_on_member(type(self.cls), name)
        metaclass, of_metaclass = _static_lookup(type(self.cls), name)
        if has_code_for(type(self.cls), "__getattribute__"):
            ctx.stop(Kind.CLASS_ATTRIBUTE, f"`{name}` of {self.describe()} is found by code of its metaclass")
        # A data descriptor of the metaclass comes before members of the class; those of C are asked below.
        if is_read_first(of_metaclass) and not isinstance(of_metaclass, _OF_C):
            return self._of_metaclass(ctx, metaclass, of_metaclass, name)
        if name in ("__name__", "__qualname__", "__module__", "__doc__") and metaclass is type:
            rely_on_names(ctx, self.cls, name)
            return ctx.literal(getattr(self.cls, name))
        written = written_member(ctx, self.cls.__mro__ or (), name)
        if written is not None:
            return realize(ctx, written)
        # Whoever holds the mapping would not see what is written from here on: no more may be (`plain_set`).
        if name == "__dict__":
            self.is_shown = True
            if self.written:
                ctx.stop(Kind.CLASS_ATTRIBUTE, f"all attributes of {self.describe()} are read after some were written")
        owner, held = _static_lookup(self.cls, name)
        if _is_bound_here(held):
            return or_else_asked(ctx, self, name, lambda: get(ctx, member_of(ctx, owner, name, held), None, self))
        if name not in vars(owner) and binds_by_code(of_metaclass):
            rely_on_no_member(ctx, self.cls.__mro__ or (), name)
            return self._of_metaclass(ctx, metaclass, of_metaclass, name)
        if is_asked_for_what_is_missing(type(self.cls)) and self._is_without(name):
            rely_on_no_member(ctx, (*(self.cls.__mro__ or ()), *metaclass.__mro__), name)
            handler = special(ctx, self, "__getattr__")
            assert handler is not None
            return ctx.call(handler, [ConstantValue(name)])
        return self._as_it_is(ctx, metaclass, name)

    def _of_metaclass(self, ctx: Tracer, owner: type, member: object, name: str) -> Value:
        """A member of the metaclass, bound to the class as to any object."""
        return or_else_asked(ctx, self, name, lambda: bind(ctx, member, owner, name, self))

    def _as_it_is(self, ctx: Tracer, metaclass: type, name: str) -> Value:
        """The member of the real class, where no code has a say in it."""
        try:
            found = getattr(self.cls, name)
        except AttributeError as error:
            rely_on_no_member(ctx, self.cls.__mro__ or (), name)
            rely_on_no_member(ctx, metaclass.__mro__, name)
            ctx.throw(AttributeError, *error.args)
        return ctx.wrap(found, AttrSource(self.source, name)) if self.source is not None else ctx.literal(found)

    def _is_without(self, name: str) -> bool:
        nothing = object()
        return all(held_by(cls, name, nothing) is nothing for cls in (self.cls, type(self.cls)))

    def set_attribute(self, ctx: Tracer, name: str, value: Value | None) -> None:
        if not is_set_by_code(ctx, self, type(self.cls), name, value):
            self.plain_set(ctx, name, value)

    def plain_set(self, ctx: Tracer, name: str, value: Value | None) -> None:
        """``type.__setattr__`` and ``type.__delattr__``, for members that mean nothing but themselves."""
        ctx.rely_on_member(self.cls, name)
        ctx.rely_on_member(type(self.cls), name)
        if type(name) is not str:
            ctx.stop(Kind.CLASS_ATTRIBUTE, f"an attribute of {self.describe()} is assigned whose name is no text")
        value = None if value is None else realize(ctx, value)
        _, held = _static_lookup(self.cls, name)
        # A member is simple where nobody but who reads it takes notice: no special name, no descriptor on either side,
        # and no metaclass that has the name.
        simple = not (name.startswith("__") and name.endswith("__")) and not hasattr(type(self.cls), name)
        simple = simple and not takes_assignments(held)
        simple = simple and (value is None or not is_descriptor_class(value.python_type()))
        # ``is_shown``: somebody holds the ``__dict__``, which would not show what is written here.
        shown = self.is_shown or ctx.effects.shows_classes
        if not simple or not _has_plain_instances(self.cls) or shown or self.source is None:
            ctx.stop(Kind.CLASS_ATTRIBUTE, f"the attribute `{name}` of {self.describe()} is assigned")
        # Deleting what is not there raises; CPython finds the words.
        if value is None and self.written.get(name) is None and (name in self.written or name not in vars(self.cls)):
            ctx.stop(Kind.CLASS_ATTRIBUTE, f"the attribute `{name}` of {self.describe()} is deleted, which has none")
        if value is not None and self.written.get(name, value) is None and name in vars(self.cls):
            ctx.stop(Kind.CLASS_ATTRIBUTE, f"`{name}` of {self.describe()} is deleted and assigned, which moves it")
        if name not in self.written and name not in vars(self.cls):
            rely_on_no_member(ctx, [self.cls], name)
        ctx.changed(self)
        self.written[name] = value

    def describe(self) -> str:
        return f"the class `{module_name(self.cls)}.{self.cls.__qualname__}`"


def rely_on_names(ctx: Tracer, cls: type, *names: str) -> None:
    """Guards what a class is called: ``type`` itself holds that, and not the members that are relied on by name."""
    if not trusted(cls) and is_made_by_code(cls):
        for name in names:
            ctx.guard(AttrSource(ConstSource(cls, cls.__qualname__), name), GuardKind.EQUALS, getattr(cls, name))


def is_set_by_code(ctx: Tracer, receiver: Value, cls: type, name: str, value: Value | None) -> bool:
    """True if a ``__setattr__`` or ``__delattr__`` of the class's own has done it for an object of ``cls``.

    One in C is that of ``object`` or ``type``, which is the value's own ``plain_set``.
    """
    hook = "__setattr__" if value is not None else "__delattr__"
    if not has_code_for(cls, hook):
        return False
    setter = special(ctx, receiver, hook)
    ctx.call(
        NONE if setter is None else setter, [ConstantValue(name)] if value is None else [ConstantValue(name), value]
    )
    return True


def written_member(ctx: Tracer, order: Iterable[type], name: str) -> Value | None:
    """A member by this name, where the first of these classes to have it was given it by the evaluated code."""
    # Mostly nobody has written to any class, and the walk is spared.
    if not ctx.effects.classes:
        return None
    for cls in order:
        known = ctx.known(cls)
        if isinstance(known, ClassValue) and name in known.written:
            found = known.written[name]
            if found is None:
                ctx.stop(Kind.CLASS_ATTRIBUTE, f"`{name}` is looked up in {known.describe()} after it was deleted")
            return found
        # A class that comes earlier hides what was written to a later one.
        if name in vars(cls):
            return None
    return None


def _has_plain_instances(cls: type) -> bool:
    """True if a class is the program's, and its instances look up members where ``written_member`` is asked."""
    special = (type, tuple, set, frozenset, str, bytes, int, float, complex, enum.Enum, torch.Tensor)
    return is_made_by_code(cls) and not trusted(cls) and not issubclass(cls, special)


_HEAP_TYPE = 1 << 9
"""The flag of CPython for classes that were made at run time (Py_TPFLAGS_HEAPTYPE)."""


def is_made_by_code(cls: type) -> bool:
    """True if a class statement made it, and not C."""
    return bool(cls.__flags__ & _HEAP_TYPE)


def _is_bound_here(member: object) -> bool:
    """True if a member is bound to the value of its class, and not to the real one: by code other than torch's."""
    is_classmethod = isinstance(member, classmethod) and not binds_by_code(member)
    return is_classmethod or (binds_by_code(member) and root_package(type(member)) != "torch")


def _static_lookup(cls: type, name: str) -> tuple[type, object]:
    """The class that defines a member, and the member as it is held."""
    for owner in cls.__mro__ or ():  # a class that is being made has none yet
        if name in vars(owner):
            return owner, vars(owner)[name]
    return cls, None


class PythonModuleValue(Value):
    """An imported module."""

    source: Source

    def __init__(self, module: object, source: Source) -> None:
        self.module = module
        self.source = source

    def python_type(self) -> type:
        return type(self.module)

    def truth(self, ctx: Tracer) -> bool:
        if (method := own_method(self.module, "__bool__", "__len__")) is not None:
            ctx.stop(Kind.SPECIAL_METHOD, f"`{method}` of the program's own says whether {self.describe()} is true")
        return True

    def constant(self) -> Any:
        return self.module

    def identity(self) -> object:
        return self.module

    def attribute(self, ctx: Tracer, name: str) -> Value:
        names = vars(self.module)
        if name == "__dict__":
            return dict_to_read(ctx, self, self.module)
        if ctx.effects.namespaces and isinstance(known := ctx.known(names), NamespaceValue) and name in known.written:
            written = known.written[name]
            if written is None or hasattr(type(self.module), name):
                ctx.stop(Kind.ATTRIBUTE, f"`{name}` of {self.describe()} is read, a global that was deleted")
            return realize(ctx, written)
        handler = names.get("__getattr__")
        # A module's own ``__getattr__`` is asked for what is missing only.
        is_known = name in names or hasattr(type(self.module), name)
        if handler is not None and not is_known and not trusted(self.module):
            return self._ask(ctx, handler, name)
        try:
            found = getattr(self.module, name)
        except AttributeError as error:
            ctx.guard(KeySource(DictSource(self.source), name), GuardKind.ABSENT)
            ctx.throw(AttributeError, *error.args)
        except Exception as error:  # of code that the module has for this  # noqa: BLE001
            let_through(error)
            ctx.stop(Kind.ATTRIBUTE, f"`{name}` of a module raises {type(error).__name__}")
        return ctx.wrap(found, AttrSource(self.source, name))

    def _ask(self, ctx: Tracer, handler: object, name: str) -> Value:
        """The answer of the module's own ``__getattr__`` for a name that the module has not."""
        entries = DictSource(self.source)
        ctx.guard(KeySource(entries, name), GuardKind.ABSENT)
        return ctx.call(ctx.wrap(handler, KeySource(entries, "__getattr__")), [ConstantValue(name)])


class SuperValue(Value):
    """``super(cls, receiver)``: attributes from the classes after ``cls``."""

    def __init__(self, cls: type, receiver: Value) -> None:
        self.cls = cls
        self.receiver = receiver

    def parts(self) -> Iterator[Value]:
        yield self.receiver

    def python_type(self) -> type:
        return super

    def attribute(self, ctx: Tracer, name: str) -> Value:
        receiver = self.receiver
        of_class = isinstance(receiver, ClassValue) and derives(receiver.cls, self.cls)
        # ``super(C, obj)`` goes through the order of obj's class, ``super(C, cls)`` through that of cls.
        order = receiver.constant().__mro__ if of_class else receiver.python_type().__mro__
        if self.cls not in order:
            ctx.stop(Kind.CLASS, f"`super()` of {self.cls!r} is used on an object of another class")
        ctx.rely_on_member(order[0], name)
        # From the class behind ``C`` on, which need not be a base of ``C``.
        behind = order[order.index(self.cls) + 1 :]
        written = written_member(ctx, behind, name)
        if written is not None:
            return realize(ctx, written)
        for owner in behind:
            if name not in vars(owner):
                continue
            # An instance of a metaclass is a class, seen as an object.
            member = member_of(ctx, owner, name, vars(owner)[name])
            return get(ctx, member, None if of_class else receiver, receiver if of_class else ctx.literal(order[0]))
        if name in vars(super):
            ctx.stop(Kind.SUPER, f"`{name}` of a `super` is read")
        rely_on_no_member(ctx, behind, name)
        return ctx.throw(AttributeError, f"'super' object has no attribute '{name}'")


def class_source(ctx: Tracer, cls: type) -> Source:
    source = ctx.literal(cls).source
    assert source is not None
    return source
