"""Things that are called: Python functions, methods, builtins, classes, partials; and the cells that closures share."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import (
    CodeType,
    FunctionType,
    MethodType,
)
from typing import Any

import torch

from capture._engine import Outside, Region
from capture.guards.sources import AttrSource, DictSource, GetitemSource, KeySource, Source
from capture.reasons import Kind
from capture.signals import let_through
from capture.values.base import (
    NotConstant,
    Tracer,
    Value,
    derives,
    held_by,
    module_name,
    realize,
    rely_on_no_member,
    root_package,
    trusted,
    type_attribute,
)
from capture.values.bound_methods import BOUND, attribute_of_bound
from capture.values.constant import UNBOUND, ConstantValue
from capture.values.own_methods import is_asked_for_what_is_missing, own_method


class CellValue(Value):
    """A closure cell: ``content`` is what it holds now; ``source`` leads to the real cell, if there is one already."""

    def __init__(self, content: Value = UNBOUND, source: Source | None = None) -> None:
        self.content = content
        self.source = source

    def python_type(self) -> type:
        return type((lambda x: lambda: x)(0).__closure__[0])  # type: ignore[index]

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name == "cell_contents":
            return ctx.throw(ValueError, "Cell is empty") if self.content is UNBOUND else realize(ctx, self.content)
        return super().attribute(ctx, name)

    def let_go(self) -> None:
        self.content = UNBOUND

    def parts(self) -> Iterator[Value]:
        yield self.content


class FunctionValue(Value):
    """A Python function, real (``function`` and ``source`` known) or made by the code under evaluation."""

    def __init__(
        self,
        code: CodeType,
        namespace: NamespaceValue,
        *,
        qualname: str = "",
        defaults: Sequence[Value] = (),
        keyword_defaults: Mapping[str, Value] | None = None,
        closure: Sequence[CellValue] = (),
        function: FunctionType | None = None,
        source: Source | None = None,
        rely_on_identity: Callable[[], None] | None = None,
    ) -> None:
        self.code = code
        self.namespace = namespace
        self.qualname = qualname or code.co_qualname
        self.defaults = list(defaults)
        self.keyword_defaults = dict(keyword_defaults or {})
        self.closure = list(closure)
        self.real = function
        """Another function of the same code may be in its place in a later call, unless ``function`` was asked for."""
        self._rely_on_identity = rely_on_identity
        self.source = source
        self.annotations: list[Value] = []
        """Names and what they are annotated with, by turns; those of a real function are not kept here."""
        self.attributes: dict[str, Value] = {}

    def python_type(self) -> type:
        return FunctionType

    @property
    def function(self) -> FunctionType | None:
        if self._rely_on_identity is not None:
            self._rely_on_identity()
        return self.real

    def identity(self) -> object:
        return self if self.function is None else self.function

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return ctx.inline(self, args, kwargs)

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if self.real is not None and self.source is not None:
            try:
                found = getattr(self.real, name)
            except AttributeError as error:
                ctx.guard(KeySource(DictSource(self.source), name), "absent")
                ctx.throw(AttributeError, *error.args)
            if name == "__get__":
                return BuiltinValue(FunctionType.__get__, receiver=self)
            return ctx.wrap(found, AttrSource(self.source, name))
        return self._made_here(ctx, name)

    def _made_here(self, ctx: Tracer, name: str) -> Value:
        known = {"__name__": self.code.co_name, "__qualname__": self.qualname, "__code__": self.code}
        known["__doc__"] = docstring(self.code)
        if name in known:
            return ConstantValue(known[name])
        if name == "__module__":
            return ConstantValue(self.namespace.contents.get("__name__"))
        if name in ("__dict__", "__defaults__", "__annotations__", "__globals__", "__kwdefaults__", "__closure__"):
            ctx.stop(Kind.FUNCTION_ATTRIBUTE, f"`{name}` of a function defined in the captured code is read")
        if name == "__get__":
            return BuiltinValue(FunctionType.__get__, receiver=self)
        if name == "__call__":
            return self
        if hasattr(FunctionType, name):
            return type_attribute(ctx, self, name)
        return ctx.throw(AttributeError, f"'function' object has no attribute '{name}'")

    def set_attribute(self, ctx: Tracer, name: str, value: Value | None) -> None:
        if self.real is not None or value is None or name in ("__code__", "__defaults__"):
            super().set_attribute(ctx, name, value)
        assert value is not None
        self.attributes[name] = value

    def parts(self) -> Iterator[Value]:
        yield from self.defaults
        yield from self.keyword_defaults.values()
        yield from self.annotations
        yield from self.closure
        yield from self.attributes.values()

    def describe(self) -> str:
        return f"the function `{self.qualname}`"


def docstring(code: CodeType) -> str | None:
    """What ``__doc__`` of a function made of this code says at first."""
    first = code.co_consts[0] if code.co_consts else None
    flag = getattr(inspect, "CO_HAS_DOCSTRING", 0)  # from 3.14 on the first constant may be any text
    return first if isinstance(first, str) and code.co_flags & flag == flag else None


class NamespaceValue(Value):
    """The globals of a module, as functions see them."""

    def __init__(self, contents: dict[str, Any], source: Source | None, *, trusted: bool) -> None:
        self.contents = contents
        self.source = source
        self.trusted = trusted
        self.written: dict[str, Value | None] = {}

    def python_type(self) -> type:
        return dict

    def parts(self) -> Iterator[Value]:
        return (value for value in self.written.values() if value is not None)


# Where methods have this they are bound for good; before, it is that of their function.
_BINDS_AGAIN = getattr(MethodType, "__get__", None)


class BoundMethod(Value):
    def __init__(self, receiver: Value, function: Value) -> None:
        self.receiver = receiver
        self.function = function

    def python_type(self) -> type:
        return type(self.python_type)

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return ctx.call(self.function, [self.receiver, *args], kwargs)

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name == "__func__":
            return self.function
        if name == "__self__":
            return self.receiver
        if name == "__get__" and _BINDS_AGAIN is not None:
            return BuiltinValue(_BINDS_AGAIN, receiver=self)
        if name == "__call__":
            return self
        if name in ("__class__", "__init__", "__hash__", "__eq__", "__ne__", "__repr__", "__reduce__", "__str__"):
            return type_attribute(ctx, self, name)
        return self.function.attribute(ctx, name)

    def parts(self) -> Iterator[Value]:
        yield self.receiver
        yield self.function

    def describe(self) -> str:
        return self.function.describe()


class BuiltinValue(Value):
    """A function without Python code, or one of torch's that the graph records whole; ``receiver`` if it is bound."""

    def __init__(self, function: Any, source: Source | None = None, receiver: Value | None = None) -> None:
        self.function = function
        self.source = source
        self.receiver = receiver

    def python_type(self) -> type:
        kind = type(self.function)
        return kind if self.receiver is None else BOUND.get(kind, kind)

    def constant(self) -> Any:
        if self.receiver is not None:
            raise NotConstant
        return self.function

    def identity(self) -> object:
        return self.function if self.receiver is None else self

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        operands = list(args) if self.receiver is None else [self.receiver, *args]
        return ctx.call_builtin(self.function, operands, dict(kwargs))

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if self.receiver is not None and type(self.function) in BOUND:
            return attribute_of_bound(ctx, self.function, self.receiver, name)
        if self.receiver is not None and name == "__self__":
            return self.receiver
        try:
            return ctx.literal(getattr(self.function, name))
        except AttributeError as error:
            ctx.throw(AttributeError, *error.args)

    def parts(self) -> Iterator[Value]:
        if self.receiver is not None:
            yield self.receiver

    def describe(self) -> str:
        name = getattr(self.function, "__qualname__", None) or repr(self.function)
        module = module_name(self.function)
        return f"the function `{module}.{name}`" if module else f"the function `{name}`"


class ClassValue(Value):
    """A class that exists: builtin, torch's or the user's."""

    def __init__(self, cls: type, source: Source | None = None) -> None:
        self.cls = cls
        self.source = source
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
        if isinstance(of_metaclass, property) and not isinstance(type(self.cls).__getattribute__, FunctionType):
            return _bind_to_class(ctx, of_metaclass, metaclass, name, self)
        if name in ("__name__", "__qualname__", "__module__", "__doc__") and metaclass is type:
            return ctx.literal(getattr(self.cls, name))
        written = written_member(ctx, self.cls.__mro__ or (), name)
        if written is not None:
            return realize(ctx, written)
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
        _, static = _static_lookup(self.cls, name)
        if isinstance(static, classmethod):
            return BoundMethod(self, ctx.wrap(static.__func__, self._member(name, "__func__")))
        return ctx.wrap(found, self._member(name)) if self.source is not None else ctx.literal(found)

    def _is_without(self, name: str) -> bool:
        nothing = object()
        return all(held_by(cls, name, nothing) is nothing for cls in (self.cls, type(self.cls)))

    def set_attribute(self, ctx: Tracer, name: str, value: Value | None) -> None:
        setter = getattr(type(self.cls), "__setattr__" if value is not None else "__delattr__")
        if isinstance(setter, FunctionType):
            args = [self, ConstantValue(name)] if value is None else [self, ConstantValue(name), value]
            ctx.call(ctx.literal(setter), args)
            return
        self.plain_set(ctx, name, value)

    def plain_set(self, ctx: Tracer, name: str, value: Value | None) -> None:
        """``type.__setattr__`` and ``type.__delattr__``, for members that mean nothing but themselves."""
        ctx.rely_on_member(self.cls, name)
        ctx.rely_on_member(type(self.cls), name)
        if type(name) is not str:
            ctx.stop(Kind.CLASS_ATTRIBUTE, f"an attribute of {self.describe()} is assigned whose name is no text")
        value = None if value is None else realize(ctx, value)
        _, held = _static_lookup(self.cls, name)
        simple = not (name.startswith("__") and name.endswith("__")) and not hasattr(type(self.cls), name)
        simple = simple and not any(hasattr(type(held), special) for special in ("__set__", "__delete__"))
        simple = simple and (value is None or not hasattr(value.python_type(), "__get__"))
        if not simple or not _has_plain_instances(self.cls) or self.is_shown or self.source is None:
            ctx.stop(Kind.CLASS_ATTRIBUTE, f"the attribute `{name}` of {self.describe()} is assigned")
        if value is None and self.written.get(name) is None and (name in self.written or name not in vars(self.cls)):
            ctx.stop(Kind.CLASS_ATTRIBUTE, f"the attribute `{name}` of {self.describe()} is deleted, which has none")
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


def written_member(ctx: Tracer, order: Iterable[type], name: str) -> Value | None:
    """A member by this name, where the first of these classes to have it was given it by the evaluated code."""
    if not ctx.effects.classes:
        return None
    for cls in order:
        known = ctx.known(cls)
        if isinstance(known, ClassValue) and name in known.written:
            found = known.written[name]
            if found is None:
                ctx.stop(Kind.CLASS_ATTRIBUTE, f"`{name}` is looked up in {known.describe()} after it was deleted")
            return found
        if name in vars(cls):
            return None
    return None


def _has_plain_instances(cls: type) -> bool:
    """Whether a class is the program's, and its instances look up members where ``written_member`` is asked."""
    special = (type, tuple, set, frozenset, str, bytes, int, float, complex, enum.Enum, torch.Tensor)
    return is_made_by_code(cls) and not trusted(cls) and not issubclass(cls, special)


_HEAP_TYPE = 1 << 9


def is_made_by_code(cls: type) -> bool:
    """Whether a class statement made it, and not C."""
    return bool(cls.__flags__ & _HEAP_TYPE)


def _runs_code(cls: type, name: str) -> bool:
    """Whether a class's attribute is found by Python code: of its metaclass, or of a descriptor but torch's, which only
    look."""
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


class PartialValue(Value):
    """``functools.partial``."""

    def __init__(
        self, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value], source: Source | None = None
    ) -> None:
        self.function = function
        self.args = list(args)
        self.kwargs = dict(kwargs)
        self.source = source

    def python_type(self) -> type:
        return functools.partial

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return ctx.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name == "func":
            if self.source is None and isinstance(self.function, PartialValue):
                ctx.stop(Kind.ATTRIBUTE, f"`func` of {self.describe()}, which is made of another, is read")
            return self.function
        return super().attribute(ctx, name)

    def parts(self) -> Iterator[Value]:
        yield self.function
        yield from self.args
        yield from self.kwargs.values()


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
        handler = names.get("__getattr__")
        is_known = name in names or hasattr(type(self.module), name)
        if isinstance(handler, FunctionType) and not is_known and not trusted(self.module):
            return self._ask(ctx, handler, name)
        try:
            found = getattr(self.module, name)
        except AttributeError as error:
            if not trusted(self.module):
                ctx.guard(KeySource(DictSource(self.source), name), "absent")
            ctx.throw(AttributeError, *error.args)
        except Exception as error:  # of code that the module has for this  # noqa: BLE001
            let_through(error)
            ctx.stop(Kind.ATTRIBUTE, f"`{name}` of a module raises {type(error).__name__}")
        return ctx.wrap(found, AttrSource(self.source, name))

    def _ask(self, ctx: Tracer, handler: FunctionType, name: str) -> Value:
        """What the module's own ``__getattr__`` says of a name that it has not."""
        entries = DictSource(self.source)
        ctx.guard(KeySource(entries, name), "absent")
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
        order = receiver.constant().__mro__ if of_class else receiver.python_type().__mro__
        if self.cls not in order:
            ctx.stop(Kind.CLASS, f"`super()` of {self.cls!r} is used on an object of another class")
        ctx.rely_on_member(order[0], name)
        behind = order[order.index(self.cls) + 1 :]
        written = written_member(ctx, behind, name)
        if written is not None:
            return realize(ctx, written)
        for owner in behind:
            if name not in vars(owner):
                continue
            if isinstance(receiver, ClassValue) and not of_class:
                return _bind_to_class(ctx, vars(owner)[name], owner, name, receiver)
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
"""What becomes a method of the object that it is read from."""


def bind(ctx: Tracer, member: Any, owner: type, name: str, receiver: Value, path: Source | None = None) -> Value:
    """A member of a class seen through an instance (or a subclass): the descriptor protocol for the known
    descriptors.
    """
    source = path or AttrSource(class_source(ctx, owner), name)
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
    kind = type(member).__name__
    if kind in ("method_descriptor", "wrapper_descriptor", "builtin_function_or_method", "_lru_cache_wrapper"):
        return BuiltinValue(member, receiver=receiver)
    getter = type(member).__get__
    if isinstance(getter, FunctionType):
        held = GetitemSource(AttrSource(class_source(ctx, owner), "__dict__"), name)  # past its ``__get__``
        descriptor = ctx.wrap(member, held)
        return ctx.call(ctx.literal(getter), [descriptor, receiver, ctx.literal(receiver.python_type())])
    return ctx.stop(Kind.DESCRIPTOR, f"the attribute `{name}` of {receiver.describe()} is a descriptor of kind {kind}")
