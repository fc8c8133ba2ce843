"""Classes that the evaluated code defines, and the members that only a class gives a meaning.

The class itself exists only where it leaves the function: then CPython makes it, by the statement that the program
wrote.  Meanwhile a dummy answers what is asked of a class: a real class with the same bases and names whose members
stand for the values of the namespace.  Nothing that the program could reach refers to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import CellType, FunctionType
from typing import Any, NoReturn

from capture.guards.sources import ConstSource, Source
from capture.reasons import Kind
from capture.values.base import Tracer, Value, held_by, realize, trusted, type_name
from capture.values.classes import ClassValue, SuperValue
from capture.values.constant import ConstantValue
from capture.values.function import BuiltinValue, FunctionValue
from capture.values.mapping import DictValue
from capture.values.sequence import TupleValue
from capture.values.slots import is_descriptor_class
from capture.values.user_object import UserObject, lookup

_FIXED = (int, float, complex, bool, str, bytes, type(None), type(...))


class MadeClass(ClassValue):
    """A class that the evaluated code defines; ``cls`` is its dummy."""

    def __init__(self, cls: type) -> None:
        super().__init__(cls, ConstSource(cls, cls.__qualname__))

    def plain_set(self, ctx: Tracer, name: str, value: Value | None) -> None:
        ctx.stop(
            Kind.CLASS_ATTRIBUTE, f"the attribute `{name}` of {self.describe()} is assigned, which was just defined"
        )


class DefinedClasses:
    """The classes that one evaluation defined."""

    def __init__(self) -> None:
        self._made: dict[type, MadeClass] = {}

    def __bool__(self) -> bool:
        return bool(self._made)

    def add(self, made: MadeClass) -> None:
        self._made[made.cls] = made

    def needed_by(self, value: Value) -> MadeClass | None:
        """The class defined here that an object cannot be without."""
        if not self._made:
            return None
        cls = value.cls if isinstance(value, (ClassValue, SuperValue)) else value.python_type()
        return next((self._made[base] for base in cls.__mro__ or () if base in self._made), None)

    def has(self, cls: type) -> bool:
        return cls in self._made

    def lead_to(self, source: Source | None) -> bool:
        """True if a path begins at the dummy of a class, and goes on."""
        if not self._made or source is None or isinstance(source, ConstSource):
            return False
        root = source.root()
        return isinstance(root, ConstSource) and isinstance(root.obj, type) and root.obj in self._made

    def clear(self) -> None:
        self._made.clear()


class MemberValue(Value):
    """A ``property``, ``staticmethod`` or ``classmethod`` that the evaluated code makes."""

    def __init__(self, kind: Any, functions: Sequence[Value]) -> None:
        self.kind = kind
        self.functions = list(functions)

    def python_type(self) -> type:
        kind: type = self.kind
        return kind

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if self.kind is property and name in _CHANGED:
            return BuiltinValue(getattr(property, name), receiver=self)
        if self.kind is not property and name in ("__func__", "__wrapped__"):
            return self.functions[0]
        return super().attribute(ctx, name)

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if self.kind is not staticmethod:
            ctx.throw(TypeError, f"'{type_name(self.kind)}' object is not callable")
        return ctx.call(self.functions[0], args, kwargs)

    def parts(self) -> Iterator[Value]:
        return iter(self.functions)


_CHANGED = {"getter": 0, "setter": 1, "deleter": 2}


def changed_property(ctx: Tracer, member: MemberValue, which: str, function: Value) -> MemberValue:
    """The property that ``property.setter`` and its kin give: the old one with another function."""
    functions: list[Value] = [*member.functions, *(ctx.literal(None) for _ in range(3 - len(member.functions)))]
    functions[_CHANGED[which]] = function
    return MemberValue(property, functions)


def define(ctx: Tracer, name: str, bases: Sequence[Value], namespace: DictValue, cell: Value) -> MadeClass:
    """The class of an evaluated class body; ``cell`` is the one for its methods' ``super()``, or None."""
    _insist_on_known_bases(ctx, name, bases)
    members = {str(key): _dummy(ctx, item) for key, (_, item) in namespace.entries.items() if key != "__classcell__"}
    try:
        cls = type(name, tuple(base.constant() for base in bases), members)
    except (TypeError, ValueError):  # which CPython says better, where the statement is
        _leave(ctx, name, "its parts do not fit together")
    made = MadeClass(cls)
    ctx.stand_for(cls, made)
    if cell is not ctx.literal(None):
        cell.content = made  # type: ignore[attr-defined]
    return made


def _insist_on_known_bases(ctx: Tracer, name: str, bases: Sequence[Value]) -> None:
    """Lets only bases pass that do nothing when a class is derived, and whose subclasses nobody counts."""
    for base in bases:
        if not isinstance(base, ClassValue) or type(base.cls) is not type:
            _leave(ctx, name, f"{base.describe()} may have a say in it")
        if not isinstance(base, MadeClass) and not trusted(base.cls):
            _leave(ctx, name, f"{base.describe()} knows of it from then on", "define it outside of the function")
        if isinstance(lookup(base.cls, "__init_subclass__")[1], classmethod):
            _leave(ctx, name, f"{base.describe()} does something then")


def _leave(ctx: Tracer, name: str, why: str, hint: str = "") -> NoReturn:
    """Breaks the graph at the class statement, so that CPython makes the class."""
    ctx.stop(Kind.CLASS, f"the class `{name}` is defined: {why}", hint or "define it outside of the function")


class _Held:
    """Stands for a value that is no function and no constant."""


def _dummy(ctx: Tracer, value: Value) -> object:
    """The member that a dummy class holds in the place of a value."""
    value = realize(ctx, value)
    if isinstance(value, ConstantValue) and _is_fixed(value.value):
        return value.value
    if isinstance(value, ClassValue):
        return value.cls
    if isinstance(value, TupleValue) and value.cls is tuple and (fixed := _fixed_items(ctx, value)) is not None:
        return fixed
    # `type()` would call its ``__set_name__``, and a read its ``__get__``: both are the program's code.
    if isinstance(value, UserObject) and (
        is_descriptor_class(value.cls) or held_by(value.cls, "__set_name__") is not None
    ):
        ctx.stop(Kind.CLASS, f"{value.describe()} is told of the class that it becomes a member of")
    if isinstance(value, FunctionValue) and value.real is not None:
        return value.real
    # From here on whoever finds the dummy in the class meets the value.
    made = _new_dummy(ctx, value)
    ctx.stand_for(made, value)
    return made


def _new_dummy(ctx: Tracer, value: Value) -> object:
    """A member of the same kind, so that the dummy class binds it as the real one would."""
    if isinstance(value, FunctionValue):
        closure = tuple(CellType() for _ in value.code.co_freevars)
        return FunctionType(value.code, {}, value.code.co_name, None, closure)
    if isinstance(value, MemberValue):
        return value.kind(*(_dummy(ctx, function) for function in value.functions))
    if not is_descriptor_class(value.python_type()):
        return _Held()
    return ctx.stop(Kind.CLASS, f"{value.describe()} becomes a member of a class")


def _is_fixed(value: object) -> bool:
    return type(value) in _FIXED or (type(value) is tuple and all(map(_is_fixed, value)))


def _fixed_items(ctx: Tracer, value: TupleValue) -> tuple[object, ...] | None:
    """The items of a tuple that is made of constants alone; None for others."""
    items = [realize(ctx, item) for item in value.items]
    constants = tuple(item.value for item in items if isinstance(item, ConstantValue))
    return constants if len(constants) == len(items) and _is_fixed(constants) else None
