"""Immutable objects whose whole content is known: numbers, strings, None, dtypes, devices, enum members, ranges."""

from __future__ import annotations

import enum
from typing import Any

from capture.guards.sources import Source
from capture.reasons import Kind
from capture.values.base import Tracer, Value, own_attribute, type_name
from capture.values.own_methods import own_method


class ConstantValue(Value):
    """``value`` itself is the knowledge; guards compare by type and equality."""

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def constant(self) -> Any:
        return self.value

    def identity(self) -> object:
        return self.value

    def truth(self, ctx: Tracer) -> bool:
        if (method := own_method(self.value, "__bool__", "__len__")) is not None:
            ctx.stop(Kind.SPECIAL_METHOD, f"`{method}` of the program's own says whether {self.describe()} is true")
        return bool(self.value)

    def attribute(self, ctx: Tracer, name: str) -> Value:
        found: Value | None = None
        if isinstance(self.value, enum.Enum):  # a member keeps attributes beside its value
            if name == "__dict__":
                ctx.stop(Kind.ATTRIBUTE, f"`{name}` of {self.describe()} is read")
            found = own_attribute(ctx, self, object.__getattribute__(self.value, "__dict__"), name)
        return found if found is not None else super().attribute(ctx, name)

    def elements(self, ctx: Tracer) -> list[Value]:
        if isinstance(self.value, (str, bytes, range, frozenset)):
            return [ctx.literal(item) for item in self.value]
        return ctx.throw(TypeError, f"'{type_name(type(self.value))}' object is not iterable")

    def __repr__(self) -> str:
        return f"<constant {self.value!r}>"


def differs_from_itself(value: object) -> bool:
    """NaN: containers find it by its identity alone."""
    return type(value) in (float, complex) and bool(value != value)


def plain_text(ctx: Tracer, text: str) -> str:
    """The ``str`` that is found wherever this text of a class derived from it is."""
    cls: Any = type(text)
    if cls.__hash__ is not str.__hash__ or cls.__eq__ is not str.__eq__:
        ctx.stop(
            Kind.NAME, f"a `{cls.__name__}`, which is compared by code of its own, is a name", "name it by a `str`"
        )
    return str.__str__(text)


NONE = ConstantValue(None)
TRUE = ConstantValue(True)
FALSE = ConstantValue(False)
NOT_IMPLEMENTED = ConstantValue(NotImplemented)


def is_none(value: object) -> bool:
    """True if it is None, of which each path makes a value of its own."""
    return isinstance(value, ConstantValue) and value.value is None


def boolean(value: bool) -> ConstantValue:
    """The one value of True, or that of False."""
    return TRUE if value else FALSE


class UnboundValue(Value):
    """A local or a cell that holds nothing yet."""

    def python_type(self) -> type:
        return type(None)


UNBOUND = UnboundValue()
