"""Immutable objects whose whole content is known: numbers, strings, None, dtypes, devices, enum members, ranges."""

from __future__ import annotations

import enum
from typing import Any

from capture.guards.sources import ConstSource, Source
from capture.reasons import Kind
from capture.values.base import Tracer, Value, held_by, module_name, own_attribute, refuse, type_name
from capture.values.own_methods import own_method
from capture.values.set_orders import UNKNOWN, rely_on_order


class ConstantValue(Value):
    """``value`` itself is the knowledge; guards compare by type and equality."""

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source
        self.is_in_order = False
        """True if the order of a frozenset is relied on already."""

    def python_type(self) -> type:
        return type(self.value)

    def constant(self) -> Any:
        return self.value

    def identity(self) -> object:
        return self.value

    def truth(self, ctx: Tracer) -> bool:
        if (method := own_method(self.value, "__bool__", "__len__")) is not None:
            ctx.stop(Kind.SPECIAL_METHOD, f"`{method}` of the program's own says whether {self.describe()} is true")
        if self.value is NotImplemented:
            ctx.stop(Kind.WARNING, "the truth of `NotImplemented` is asked for, of which Python warns at every call")
        return bool(self.value)

    def attribute(self, ctx: Tracer, name: str) -> Value:
        found: Value | None = None
        if isinstance(self.value, enum.Enum):  # a member keeps attributes beside its value
            if name == "__dict__":
                ctx.stop(Kind.ATTRIBUTE, f"`{name}` of {self.describe()} is read")
            kept = f"_{name}_" if name in ("name", "value") and self._is_kept(name) else name
            found = own_attribute(ctx, self, object.__getattribute__(self.value, "__dict__"), kept)
        return found if found is not None else super().attribute(ctx, name)

    def _is_kept(self, name: str) -> bool:
        """True if ``name`` or ``value`` is that of ``Enum``, which reads an attribute of the member's own."""
        getter = getattr(held_by(type(self.value), name), "fget", None)
        return module_name(getter) == "enum" and f"_{name}_" in object.__getattribute__(self.value, "__dict__")

    def elements(self, ctx: Tracer) -> list[Value]:
        self.rely_on_order(ctx)
        if isinstance(self.value, (str, bytes, range, frozenset)):
            return [ctx.literal(item) for item in self.value]
        text = f"'{type_name(type(self.value))}' object is not iterable"
        return refuse(ctx, self, text, "__iter__", "__getitem__")  # members of flags are

    def rely_on_order(self, ctx: Tracer) -> None:
        """Notes that the order of a frozenset decides: one of the code's, or made here, is as CPython made it."""
        if type(self.value) is not frozenset or len(self.value) < 2 or self.is_in_order:
            return
        self.is_in_order = True
        if self.source is None or isinstance(self.source, ConstSource):
            ctx.varies(UNKNOWN)
        else:
            rely_on_order(ctx, (self.source, tuple(self.value)))

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
