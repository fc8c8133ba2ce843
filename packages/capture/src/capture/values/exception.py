"""Exception objects that the evaluated code makes, raises and catches."""

from __future__ import annotations

from collections.abc import Sequence
from types import BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType, TracebackType, WrapperDescriptorType
from typing import Any

from capture.guards.sources import AttrSource, Source
from capture.reasons import Kind
from capture.values.base import LazyValue, Tracer, Value, derives, realize
from capture.values.constant import FALSE, NONE, TRUE, is_none
from capture.values.sequence import TupleValue
from capture.values.user_object import UserObject, lookup

# The real traceback of an exception that came from outside and was not raised here since.
_AS_IT_CAME = object()
_LINKS = ("__cause__", "__context__", "__suppress_context__", "__traceback__")


class ExceptionValue(UserObject):
    """An exception: the program's own, or one that only the evaluation has made and raised."""

    def __init__(
        self, cls: type[BaseException], args: Sequence[Value] = (), obj: Any = None, source: Source | None = None
    ) -> None:
        super().__init__(cls, obj, source)
        self.new_args = list(args)
        self.caught = False
        self._trace: object = None if source is None else _AS_IT_CAME

    @property
    def trace(self) -> object:
        """An object for the traceback: another one after each addition; the exception itself for the one it came with.

        None where there is none.
        """
        return self if self._trace is _AS_IT_CAME else self._trace  # to refer to itself would make it garbage

    @trace.setter
    def trace(self, other: object) -> None:
        self._trace = other

    def raise_while(self, ctx: Tracer, handled: Value | None) -> None:
        """Sets ``__context__`` as CPython does when it raises this while another one is being handled."""
        if handled is None or handled is self:
            return
        link: Value | None = handled
        passed: set[Value] = set()  # a program may have closed the chain
        while isinstance(link, ExceptionValue) and link not in passed:
            passed.add(link)
            further = self._context_of(ctx, link)
            if further is self:  # as CPython does, lest it follows from itself
                ctx.changed(link)
                link.overlay["__context__"] = NONE
                break
            link = further
        if self.source is not None:  # others see it, too
            ctx.changed(self)
        self.overlay["__context__"] = handled

    def _context_of(self, ctx: Tracer, link: ExceptionValue) -> Value | None:
        """The exception that a link of the chain was raised over; one that was made here is in no chain from before."""
        if "__context__" in link.overlay or self.source is None:
            return link.overlay.get("__context__")
        return link.plain_attribute(ctx, "__context__")

    def follow_from(self, ctx: Tracer, cause: Value) -> None:
        """Sets ``__cause__``, and that it hides the context."""
        # It may be an exception that was there before, whose cause others see.
        ctx.changed(self)
        self.overlay["__cause__"] = cause
        self.overlay["__suppress_context__"] = TRUE

    def was_raised(self) -> None:
        """A frame was added to its traceback."""
        self.trace = object()
        if self.source is None:
            self.overlay.pop("__traceback__", None)
        elif "__traceback__" in self.overlay:
            self.overlay["__traceback__"] = UnseenTraceback()

    def plain_attribute(self, ctx: Tracer, name: str) -> Value | None:
        if name in self.overlay:
            return super().plain_attribute(ctx, name) if name not in _LINKS else self.overlay[name]
        # A frame was added to it in the evaluation alone, so that there is no real one to show.
        if name == "__traceback__" and self.caught:
            return UnseenTraceback()
        if self.source is not None and (name == "args" or name in _LINKS):
            return realize(ctx, LazyValue(getattr(self.obj, name), AttrSource(self.source, name)))
        if self.source is not None:
            return super().plain_attribute(ctx, name)
        if name == "args":
            return TupleValue(self.new_args)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.new_args[0] if self.new_args else NONE
        if name == "__context__" and self._trace is not None:  # raised here, where nothing was handled
            ctx.rely_on_no_handler()
        if name in _LINKS:
            return FALSE if name == "__suppress_context__" else NONE
        owner, member = lookup(self.cls, name)
        # ``errno``, ``filename`` and the like, which the constructor in C fills: nobody has run it yet.
        if isinstance(member, (MemberDescriptorType, GetSetDescriptorType)) and owner.__module__ == "builtins":
            ctx.stop(Kind.EXCEPTION_VALUE, f"`{name}` of an exception that only the evaluation made is read")
        return super().plain_attribute(ctx, name)

    def plain_set(self, ctx: Tracer, name: str, value: Value | None) -> None:
        if name not in _LINKS or value is None:
            super().plain_set(ctx, name, value)
            return
        value = realize(ctx, value)
        allowed = {"__suppress_context__": bool, "__traceback__": TracebackType}.get(name, BaseException)
        if not derives(value.python_type(), allowed) and (name == "__suppress_context__" or not is_none(value)):
            ctx.stop(Kind.EXCEPTION_VALUE, f"`{name}` of an exception is to be {value.describe()}")
        if name == "__cause__":
            self.follow_from(ctx, value)
            return
        if name == "__traceback__":
            self.trace = None if is_none(value) else object()
        ctx.changed(self)
        self.overlay[name] = value


def made_in_c(cls: type[BaseException], name: str) -> object:
    """``__new__`` or ``__init__`` of the class, or of the nearest before it that has one without Python code."""
    found = (vars(base)[name] for base in cls.__mro__ if name in vars(base))
    return next(member for member in found if isinstance(member, (BuiltinFunctionType, WrapperDescriptorType)))


class UnseenTraceback(Value):
    """The traceback of an exception that only the evaluation raised: it is there, and cannot be looked at."""

    def python_type(self) -> type:
        return TracebackType

    def attribute(self, ctx: Tracer, name: str) -> Value:
        ctx.stop(Kind.TRACEBACK, f"`{name}` of a traceback is read")
