"""The base of all symbolic values, and the one door through which they reach the world.

A value stands for an object of the user's program while a frame is evaluated.  It may know where the object came from
(``source``), and it answers Python's questions about it: its type, an attribute, a call, its truth.  Whatever needs
more than the value itself (recording an operation, looking at a real object, running a function) goes through
``Tracer``.  Values never import the frame, the machine or the bytecode.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any, NoReturn, Protocol, TypeVar

import torch

from capture.errors import Location, UserRaised
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, ConstSource, DictSource, Inputs, KeySource, Source
from capture.options import Options
from capture.reasons import Kind, Reason
from capture.values.asked import Asked

_Read = TypeVar("_Read")


class NotConstant(Exception):
    """The value depends on more than constants."""


class Recorded(Protocol):
    """The graph as values see it."""

    @property
    def nodes(self) -> Sequence[object]:
        """The nodes that it has so far."""


class Changes(Protocol):
    """The effects as values see them."""

    @property
    def classes(self) -> bool:
        """True if members of a class were written."""

    @property
    def shows_classes(self) -> bool:
        """True if the members of some class are looked at as a mapping."""

    @property
    def namespaces(self) -> bool:
        """True if globals of a module were written."""

    def changed(self) -> list[Value]:
        """The objects from before that were changed."""

    @property
    def contexts(self) -> Sequence[Value]:
        """Torch's contexts that were entered and not left, in their order."""

    def take(self, ctx: Tracer, container: Value, item: Value) -> None:
        """An item is taken out of a container, which others may look into as well."""


class Keys(Protocol):
    """Objects that are looked for, as values see them."""

    def add(self, ctx: Tracer, value: Value) -> None:
        """Notes an object that is none of those before."""


class Tracer(Protocol):
    """The world as values see it."""

    @property
    def options(self) -> Options:
        """The options that the user chose."""

    @property
    def inputs(self) -> Inputs:
        """The function and the arguments of the call that is evaluated."""

    @property
    def graph(self) -> Recorded:
        """The graph that was recorded so far."""

    @property
    def effects(self) -> Changes:
        """The changes that the evaluated code made to objects and to the library's state."""

    @property
    def keys(self) -> Keys:
        """The objects that are looked for by their identity."""

    def wrap(self, obj: object, source: Source) -> Value:
        """The value of a real object found at ``source``; guards what its kind relies on."""

    def known(self, obj: object) -> Value | None:
        """The value of a real object that was met already."""

    def literal(self, obj: Any) -> Value:
        """The value of an object that was computed here, or that never changes."""

    def record(
        self, target: object, args: Sequence[Value], kwargs: Mapping[str, Value], *, method: bool = False
    ) -> Value:
        """Run a torch operation on the operands' metadata and add it to the graph."""

    def call(self, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value] | None = None) -> Value:
        """Call any value."""

    def call_builtin(self, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """Call a function without Python code of its own, through the table of rules."""

    def inline(self, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """Evaluate the code of a Python function in a frame of its own."""

    def resume(self, generator: Any, sent: Value) -> Value | None:
        """Run a generator up to its next value; ``None`` when it returns."""

    def throw_into(self, generator: Any, raised: Any, *, closes: bool = True) -> Value | None:
        """Run a generator up to its next value, with an exception raised where it waits."""

    def stand_for(self, obj: object, value: Value) -> None:
        """Makes `value` the value of this object, which exists only during the evaluation."""

    def attempt(self, function: Value, *caught: type[BaseException]) -> Value | None:
        """Call without arguments; None where the user's code raises one of ``caught``."""

    def guard(self, source: Source | None, kind: GuardKind, *payload: Any, text: str = "") -> None:
        """Rely on a check."""

    def varies(self, explanation: str) -> None:
        """Notes that what is evaluated is another thing in each process: the version is of this one alone."""

    def asked_once(self, asked: Asked) -> None:
        """Notes a question whose answer is what every later call gets."""

    def rely_on_member(self, cls: type, name: str) -> None:
        """Rely on what instances of a class, or those derived from it, find by a name that is no special one."""

    def is_one_object(self, left: Value, right: Value) -> bool:
        """True if ``is`` holds; relied on from now on."""

    def rely_on_no_handler(self) -> None:
        """Rely on the caller's handling no exception, which one that is raised here would be raised over."""

    def changed(self, value: Value) -> None:
        """The value is about to be mutated."""

    def note_origin(self, value: Value) -> None:
        """Remember where this came into being, for the case that CPython has to make it after all."""

    def location(self) -> Location:
        """The user's line that is being evaluated."""

    def in_library(self) -> bool:
        """True if the code that is being evaluated belongs to an installed package or the standard library."""

    def throw(self, cls: type[BaseException], *args: Any) -> NoReturn:
        """The user's program raises here."""

    def stop(self, kind: Kind, explanation: str, hint: str = "") -> NoReturn:
        """Break: CPython has to run this instruction."""

    def stop_for(self, reason: Reason) -> NoReturn:
        """Break for a reason that is known already."""


class Value:
    """Base of all kinds.  Defaults refuse, so that a kind says only what it can do."""

    source: Source | None = None

    whole: Value | None = None
    """The object whose contents this is, where the object is more than its contents."""

    def python_type(self) -> type:
        raise NotImplementedError

    def constant(self) -> Any:
        """The object itself, where it is made of constants alone; raises `NotConstant` elsewhere."""
        raise NotConstant

    def identity(self) -> object:
        """Something that is the same object exactly when Python's ``is`` holds."""
        return self

    def attribute(self, ctx: Tracer, name: str) -> Value:
        return type_attribute(ctx, self, name)

    def set_attribute(self, ctx: Tracer, name: str, value: Value | None) -> None:
        """Assign, or delete where ``value`` is None."""
        ctx.stop(Kind.ATTRIBUTE, f"an attribute of {self.describe()} is assigned")

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if not callable_type(self):
            ctx.throw(TypeError, f"'{type_name(self.python_type())}' object is not callable")
        return ctx.call(self.attribute(ctx, "__call__"), args, kwargs)

    def truth(self, ctx: Tracer) -> bool:
        """The answer of ``bool()``; a kind with ``__bool__`` or ``__len__`` answers for itself."""
        return True

    def elements(self, ctx: Tracer) -> list[Value]:
        """All items, where the number of them is known without running anything."""
        ctx.stop(Kind.ITERATION, f"{self.describe()} is iterated")

    def let_go(self) -> None:
        """Forget what leads back here: the evaluation is over, and a collection may be far off."""

    def parts(self) -> Iterator[Value]:
        """The values this one refers to: what must be rebuilt before it can be."""
        return iter(())

    def changes(self) -> Iterator[Value]:
        """The values that have to be loaded, or made, before its changes can be replayed."""
        return self.parts()

    def describe(self) -> str:
        """Words for messages."""
        if self.source is not None:
            return f"`{self.source.expression()}`, a {self.python_type().__qualname__}"
        return f"a {self.python_type().__qualname__}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.source.expression() if self.source else ''}>"


class LazyValue(Value):
    """A real object that nothing has looked at yet, so that nothing is guarded for it.

    It may rest in locals and containers.  Whoever looks calls ``realize``; what it turns out to be is kept.
    """

    def __init__(self, obj: Any, source: Source) -> None:
        self.obj = obj
        self.source = source
        self._known: Value | None = None

    def realized(self, ctx: Tracer) -> Value:
        """The value that it turns out to be, with the guards that go with looking at it."""
        if self._known is None:
            assert self.source is not None
            self._known = ctx.wrap(self.obj, self.source)
        return self._known

    @property
    def known(self) -> Value | None:
        return self._known

    def python_type(self) -> type:
        return type(self.obj)

    def truth(self, ctx: Tracer) -> bool:
        return self.realized(ctx).truth(ctx)


def derives(cls: type, base: type) -> bool:
    """The answer of ``issubclass`` where no metaclass has another opinion."""
    return base in (cls.__mro__ or ())  # a class that is being made has none yet


_MODULE_OF_CLASS = vars(type)["__module__"]


def module_name(obj: object) -> str:
    """The module that a class or function says it is from; programs may say anything, and metaclasses by code."""
    try:
        name = _MODULE_OF_CLASS.__get__(obj) if issubclass(type(obj), type) else obj.__module__
    except AttributeError:
        return ""
    return name if isinstance(name, str) else ""


def held_by(cls: type, name: str, default: object = None) -> Any:
    """The member that a class or one of its bases holds by this name, unbound.

    No metaclass is asked, nor told of the question: what is done here must not run code of the program.
    """
    for base in type.__getattribute__(cls, "__mro__") or ():
        if name in type.__getattribute__(base, "__dict__"):
            return type.__getattribute__(base, "__dict__")[name]
    return default


def root_package(obj: object) -> str:
    return module_name(obj).partition(".")[0]


def trusted(obj: object) -> bool:
    """True for code of torch's and of the standard library's own, which is taken as fixed."""
    name = getattr(obj, "__name__", None) if issubclass(type(obj), ModuleType) else module_name(obj)
    if not name or not isinstance(name, str):
        return isinstance(obj, (BuiltinFunctionType, MethodDescriptorType))
    root = name.partition(".")[0]
    return root == "torch" or (root in sys.stdlib_module_names and name != "__main__")


def leads_through_fixed_code(source: Source) -> bool:
    """True if the path begins at code of torch's or the standard library's, so that nothing on it is asked for again.

    One that begins at a class of the program's leads to globals that the program may bind anew.
    """
    root = source.root()
    return isinstance(root, ConstSource) and trusted(root.obj)


def is_fixed(cls: type) -> bool:
    """True for classes of torch and the standard library, but for modules: programs put members on those later."""
    return trusted(cls) and torch.nn.Module not in type.__getattribute__(cls, "__mro__")


def may_be_replaced(ctx: Tracer, source: Source, obj: object) -> bool:
    """True if programs put other functions in this place, for a while or for good, so that it has to be guarded.

    That is a function under a name of torch's, or anything callable in a module where the program's own code looks it
    up.
    """
    if not (isinstance(source, AttrSource) and isinstance(source.parent, ConstSource)):
        return False
    owner = source.parent.obj
    name = owner.__name__ if isinstance(owner, ModuleType) else module_name(owner) if isinstance(owner, type) else ""
    functions = (FunctionType, BuiltinFunctionType, MethodDescriptorType)
    if name.partition(".")[0] == "torch" and isinstance(obj, functions):
        return True
    return isinstance(owner, ModuleType) and callable(obj) and not ctx.in_library()


def rely_on_no_member(ctx: Tracer, classes: Iterable[type], name: str) -> None:
    """A later call may find such a member in one of these classes: in the program's, and in a library's where the
    program asks, which may then give it one."""
    asked_by_program = not ctx.in_library()
    for cls in classes:
        if not is_fixed(cls) or (asked_by_program and takes_members(cls)):
            source = ctx.literal(cls).source
            assert source is not None
            ctx.guard(KeySource(DictSource(source), name), GuardKind.ABSENT)


def takes_members(cls: type) -> bool:
    """True if a member can be put on the class: it is none of C's."""
    flags = cls.__flags__
    return bool(flags & _OF_A_STATEMENT) and not flags & _IMMUTABLE


_OF_A_STATEMENT, _IMMUTABLE = 1 << 9, 1 << 8
"""Flags of types in CPython: made while the program runs, and closed to assignments."""


def realize(ctx: Tracer, value: Value) -> Value:
    return value.realized(ctx) if isinstance(value, LazyValue) else value


def settled(value: Value) -> Value:
    """The value behind a lazy one, if someone has looked already."""
    if isinstance(value, LazyValue) and value.known is not None:
        return value.known
    return value


def reachable(values: Sequence[Value]) -> list[Value]:
    """The values, and what new objects among them refer to, each once."""
    seen: dict[int, Value] = {}
    todo = list(reversed(values))
    while todo:
        value = settled(todo.pop())
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if value.source is None and not isinstance(value, LazyValue):
            todo.extend(reversed(list(value.parts())))
    return list(seen.values())


def type_attribute(ctx: Tracer, value: Value, name: str) -> Value:
    """An attribute of an object without attributes of its own: a method or a plain member of its type."""
    cls = value.python_type()
    if name == "__class__":
        return ctx.literal(cls)
    ctx.rely_on_member(cls, name)
    # Plain members too are read by a rule: `bind_member` is what gives one its meaning, by kind of the object.
    for owner in cls.__mro__:
        if name in vars(owner):
            return ctx.call_builtin(bind_member, [value, ctx.literal(cls), ctx.literal(name)], {})
    rely_on_no_member(ctx, cls.__mro__, name)
    return ctx.throw(AttributeError, f"'{type_name(cls)}' object has no attribute '{name}'")


def own_attribute(ctx: Tracer, value: Value, held: Mapping[str, object], name: str) -> Value | None:
    """The object's own attribute, found before its class is asked; None where it has no such, which is relied on."""
    kind = type(held_by(value.python_type(), name))
    if held_by(kind, "__get__") is not None and any(held_by(kind, each) for each in ("__set__", "__delete__")):
        return None
    if value.source is None:
        ctx.stop(Kind.ATTRIBUTE, f"`{name}` of {value.describe()} is read")
    path = KeySource(DictSource(value.source), name)
    if name in held:
        return ctx.wrap(held[name], path)
    ctx.guard(path, GuardKind.ABSENT)
    return None


def or_else_asked(ctx: Tracer, value: Value, name: str, read: Callable[[], _Read]) -> _Read | Value:
    """The result of ``read``, or of the class's ``__getattr__`` where that raises AttributeError, as in CPython.

    A property raises it, or a ``__getattribute__``: CPython forgets that one.
    """
    try:
        return read()
    except UserRaised as raised:
        cls = value.python_type()
        ctx.rely_on_member(cls, "__getattr__")
        if held_by(cls, "__getattr__") is None or not issubclass(raised.value.python_type(), AttributeError):
            raise
        raised.was_caught()
    handler = ctx.call_builtin(bind_special, [value, ctx.literal("__getattr__")], {})
    return ctx.call(handler, [ctx.literal(name)])


def throw_as(ctx: Tracer, function: Callable[..., object], *args: object) -> NoReturn:
    """Raise what CPython raises for this call: its words are not the same in every release."""
    try:
        function(*args)
    except Exception as error:  # noqa: BLE001  whatever it refuses with
        refused = type(error), error.args
    ctx.throw(refused[0], *refused[1])


def refuse(ctx: Tracer, value: Value, text: str, *names: str) -> NoReturn:
    """Raises a TypeError of a value whose class has none of these special methods; to another CPython has an answer."""
    if any(held_by(value.python_type(), name) is not None for name in names):
        ctx.stop(Kind.SPECIAL_METHOD, f"{value.describe()} is asked for its `{names[0]}`")
    ctx.throw(TypeError, text)


def callable_type(value: Value) -> bool:
    """The answer of ``callable``, by the class."""
    return held_by(value.python_type(), "__call__") is not None


def is_iterable(value: Value) -> bool:
    """True if ``iter()`` takes it, by the class."""
    cls = value.python_type()
    return held_by(cls, "__iter__") is not None or held_by(cls, "__getitem__") is not None


def type_name(cls: type) -> str:
    """The name of a class in Python's own errors: those made in C have one with their module, if they say so."""
    # Made by a class statement: on the heap, and its attributes may be set.
    is_pythons = cls.__flags__ & (1 << 9) and not cls.__flags__ & (1 << 8)
    return cls.__name__ if is_pythons or cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


def bind_member(obj: object, cls: type, name: str) -> object:
    """``obj.name`` where only the type knows it; the rules give it a symbolic meaning."""
    return getattr(obj, name)


def bind_special(obj: object, name: str) -> object:
    """The special method of this name as the class has it for an object; the rules give it a symbolic meaning."""
    return getattr(obj, name)
