"""The attributes of a bound method without Python code: it has fewer than the descriptor that it was made of.

Must not know: how it is called.
"""

from __future__ import annotations

from types import BuiltinMethodType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import NoReturn

from capture.reasons import Kind
from capture.values.base import Tracer, Value, type_name
from capture.values.constant import ConstantValue

BOUND: dict[type, type] = {MethodDescriptorType: BuiltinMethodType, WrapperDescriptorType: MethodWrapperType}
"""The type of a function of C once it is bound."""

_AS_UNBOUND = frozenset({"__name__", "__doc__", "__text_signature__", "__objclass__"})


Descriptor = MethodDescriptorType | WrapperDescriptorType


def attribute_of_bound(ctx: Tracer, descriptor: Descriptor, receiver: Value, name: str) -> Value:
    """An attribute of the descriptor bound to the receiver."""
    kind = BOUND[type(descriptor)]
    if not any(name in vars(each) for each in kind.__mro__):
        return _missing(ctx, kind, name)
    if name == "__self__":
        return receiver
    if name == "__class__":
        return ctx.literal(kind)
    if name in _AS_UNBOUND:
        return ctx.literal(getattr(descriptor, name))
    if name == "__qualname__":
        return ConstantValue(_qualified(receiver, descriptor, kind))
    if name == "__module__":
        return ctx.literal(None)
    return ctx.stop(Kind.ATTRIBUTE, f"`{name}` of the method {descriptor.__name__} of {receiver.describe()} is read")


def _qualified(receiver: Value, descriptor: Descriptor, kind: type) -> str:
    """The ``__qualname__``: by the receiver's class and not the descriptor's, but for slots."""
    if kind is MethodWrapperType:
        return str(descriptor.__qualname__)
    return f"{receiver.python_type().__qualname__}.{descriptor.__name__}"


def _missing(ctx: Tracer, kind: type, name: str) -> NoReturn:
    ctx.throw(AttributeError, f"'{type_name(kind)}' object has no attribute '{name}'")
