"""The objects that members are looked up in: classes, ``super()``, imported modules; and how a found member is bound.

Lookups follow Python's order, and each relies on what it found or did not find: on members by ``ctx.rely_on_member``
(one guard per class, ``values/class_guards``), on a class not having one by ``rely_on_no_member``.  What the
evaluated code assigned to a class comes first (``written_member``), as the real class has it only when the frame
leaves.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from capture._engine import Outside, Region
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, ConstSource, DictSource, GetitemSource, KeySource, Source
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
from capture.values.bound_methods import BOUND
from capture.values.constant import ConstantValue
from capture.values.function import BoundMethod, BuiltinValue, NamespaceValue
from capture.values.instance_dict import dict_to_read
from capture.values.own_methods import is_asked_for_what_is_missing, own_method


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
            if said is not None and not trusted(owner):
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
        # A data descriptor of the metaclass comes before members of the class.
        if isinstance(of_metaclass, property) and not isinstance(type(self.cls).__getattribute__, FunctionType):
            return or_else_asked(ctx, self, name, lambda: _bind_to_class(ctx, of_metaclass, metaclass, name, self))
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
        if _runs_code(self.cls, name):
            ctx.stop(Kind.CLASS_ATTRIBUTE, f"`{name}` of {self.describe()} is computed by code of its own")
        if is_asked_for_what_is_missing(type(self.cls)) and self._is_without(name):
            rely_on_no_member(ctx, (*(self.cls.__mro__ or ()), *metaclass.__mro__), name)
            handler = held_by(type(self.cls), "__getattr__")
            return ctx.call(ctx.literal(handler), [self, ConstantValue(name)])
        try:
            found = getattr(self.cls, name)
        except AttributeError as error:
            rely_on_no_member(ctx, self.cls.__mro__ or (), name)
            rely_on_no_member(ctx, metaclass.__mro__, name)
            ctx.throw(AttributeError, *error.args)
        # ``getattr`` has bound it to the real class already: the function is taken from what is held, and bound to this
        # value.
        _, static = _static_lookup(self.cls, name)
        if isinstance(static, classmethod):
            return BoundMethod(self, ctx.wrap(static.__func__, self._member(name, "__func__")))
        return ctx.wrap(found, self._member(name)) if self.source is not None else ctx.literal(found)

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
        simple = simple and not any(hasattr(type(held), special) for special in ("__set__", "__delete__"))
        simple = simple and (value is None or not hasattr(value.python_type(), "__get__"))
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

    def _member(self, *names: str) -> Source:
        assert self.source is not None
        path: Source = self.source
        for name in names:
            path = AttrSource(path, name)
        return path

    def describe(self) -> str:
        return f"the class `{module_name(self.cls)}.{self.cls.__qualname__}`"


def rely_on_names(ctx: Tracer, cls: type, *names: str) -> None:
    """Guards what a class is called: ``type`` itself holds that, and not the members that are relied on by name."""
    if not trusted(cls) and is_made_by_code(cls):
        for name in names:
            ctx.guard(AttrSource(ConstSource(cls, cls.__qualname__), name), GuardKind.EQUALS, getattr(cls, name))


def is_set_by_code(ctx: Tracer, receiver: Value, cls: type, name: str, value: Value | None) -> bool:
    """True if a ``__setattr__`` or ``__delattr__`` in Python has done it for an object of ``cls``.

    One in C is that of ``object`` or ``type``, which is the value's own ``plain_set``.
    """
    setter = getattr(cls, "__setattr__" if value is not None else "__delattr__")
    if not isinstance(setter, FunctionType):
        return False
    args = [receiver, ConstantValue(name)] if value is None else [receiver, ConstantValue(name), value]
    ctx.call(ctx.literal(setter), args)
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


def _runs_code(cls: type, name: str) -> bool:
    """True if Python code finds the attribute: of the metaclass, or of a descriptor other than torch's."""
    _, held = _static_lookup(cls, name)
    if isinstance(type(cls).__getattribute__, FunctionType):
        return True
    if root_package(type(held)) == "torch":
        return False
    return isinstance(getattr(type(held), "__get__", None), FunctionType)


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
        if isinstance(handler, FunctionType) and not is_known and not trusted(self.module):
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

    def _ask(self, ctx: Tracer, handler: FunctionType, name: str) -> Value:
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
            # An instance of a metaclass: a class, seen as an object.
            if isinstance(receiver, ClassValue) and not of_class:
                return _bind_to_class(ctx, vars(owner)[name], owner, name, receiver)
            # A function of C that is read through a class stays unbound.
            if of_class and type(vars(owner)[name]) in BOUND:
                return ctx.literal(vars(owner)[name])
            return bind(ctx, vars(owner)[name], owner, name, receiver)
        rely_on_no_member(ctx, behind, name)
        return ctx.throw(AttributeError, f"'super' object has no attribute '{name}'")


def _bind_to_class(ctx: Tracer, member: object, owner: type, name: str, cls: ClassValue) -> Value:
    """A member of a metaclass seen through one of its classes."""
    source = AttrSource(class_source(ctx, owner), name)
    if isinstance(member, FunctionType):
        return BoundMethod(cls, ctx.wrap(member, source))
    if isinstance(member, property) and member.fget is not None:
        return ctx.call(ctx.wrap(member.fget, AttrSource(source, "fget")), [cls])
    return _bind_other(ctx, member, owner, name, cls)


_FUNCTIONS = (FunctionType, Region, Outside)
"""The kinds of functions that become methods of the object that they are read from."""


def bind(ctx: Tracer, member: Any, owner: type, name: str, receiver: Value, path: Source | None = None) -> Value:
    """A member of a class seen through an instance (or a subclass), by the protocol of descriptors."""
    source = path or AttrSource(class_source(ctx, owner), name)
    # In this order: what each kind of member becomes when it is read through an instance.
    if isinstance(member, staticmethod):
        return ctx.wrap(member.__func__, source)
    if isinstance(member, classmethod):
        target = receiver if isinstance(receiver, ClassValue) else ctx.literal(receiver.python_type())
        return BoundMethod(target, ctx.wrap(member.__func__, AttrSource(source, "__func__")))
    if isinstance(receiver, ClassValue) and isinstance(member, _FUNCTIONS):
        return ctx.wrap(member, source)
    if isinstance(member, property):
        if member.fget is None:
            cls = receiver.python_type()
            ctx.throw(AttributeError, f"property '{name}' of '{cls.__qualname__}' object has no getter")
        return ctx.call(ctx.wrap(member.fget, AttrSource(source, "fget")), [receiver])
    if isinstance(member, _FUNCTIONS):
        return BoundMethod(receiver, ctx.wrap(member, source))
    # A static method by custom, though nothing says so.
    if name == "__new__" and hasattr(member, "__get__"):
        return ctx.literal(member.__get__(None, owner))
    if hasattr(type(member), "__get__"):
        return _bind_other(ctx, member, owner, name, receiver)
    return ctx.wrap(member, source)


def class_source(ctx: Tracer, cls: type) -> Source:
    source = ctx.literal(cls).source
    assert source is not None
    return source


def _bind_other(ctx: Tracer, member: Any, owner: type, name: str, receiver: Value) -> Value:
    """Binds a member by its own ``__get__``: one of C's that only binds, or one in Python, which is evaluated."""
    # By name, as some of these types have none that could be imported.
    kind = type(member).__name__
    if kind in ("method_descriptor", "wrapper_descriptor", "builtin_function_or_method", "_lru_cache_wrapper"):
        return BuiltinValue(member, receiver=receiver)
    getter = type(member).__get__
    if isinstance(getter, FunctionType):
        held = GetitemSource(AttrSource(class_source(ctx, owner), "__dict__"), name)  # past its ``__get__``
        descriptor = ctx.wrap(member, held)
        return ctx.call(ctx.literal(getter), [descriptor, receiver, ctx.literal(receiver.python_type())])
    return ctx.stop(Kind.DESCRIPTOR, f"the attribute `{name}` of {receiver.describe()} is a descriptor of kind {kind}")
