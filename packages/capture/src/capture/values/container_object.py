"""Instances of subclasses of list, dict, set and deque: objects with attributes that are containers as well.

The methods of the subclass are evaluated like anyone's.  Where they reach the builtin class they work on the contents,
which are a value of the builtin kind; changes of it are replayed on the object, past the subclass's methods.
"""

from __future__ import annotations

import collections
from typing import Any

from capture.guards.sources import Source
from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.mapping import DictValue
from capture.values.sequence import ListValue, SetValue
from capture.values.slots import has_code_for
from capture.values.user_object import UserObject

STORAGE: tuple[type, ...] = (collections.OrderedDict, collections.defaultdict, dict, collections.deque, list, set)
"""The classes whose instances hold items in C, the most derived first."""


class ContainerObject(UserObject):
    def __init__(self, cls: type, contents: Value, obj: Any = None, source: Source | None = None) -> None:
        super().__init__(cls, obj, source)
        self.contents = contents
        contents.whole = self

    def let_go(self) -> None:
        super().let_go()
        self.contents.whole = None

    def parts(self) -> Any:
        yield from super().parts()
        yield from self.contents.parts()


def storage_class(cls: type) -> Any:
    """The builtin container that a class extends; None for others, and for the builtin containers themselves."""
    if cls in STORAGE:
        return None
    return next((base for base in STORAGE if issubclass(cls, base)), None)


def empty_contents(base: type) -> Value:
    if issubclass(base, dict):
        return DictValue(cls=base)
    return SetValue({}) if base is set else ListValue([], cls=base)


def contents_of(value: Value) -> Value:
    """The container itself, for the builtin classes' own methods."""
    return value.contents if isinstance(value, ContainerObject) else value


def leave_subclass(ctx: Tracer, *contents: Value) -> None:
    """Breaks the graph where a method makes another object of a subclass, by way of what that is called with."""
    for value in contents:
        if value.whole is not None and value.python_type() not in (list, dict):  # these two give themselves
            ctx.stop(Kind.CONTAINER, f"{value.whole.describe()} makes another of its class")


def leave_own_walk(ctx: Tracer, *mappings: DictValue) -> None:
    """Breaks the graph where a dict is copied whose class has an ``__iter__`` of its own: C asks its ``keys`` then."""
    for value in mappings:
        if value.whole is not None and has_code_for(value.whole.python_type(), "__iter__"):
            ctx.stop(Kind.CONTAINER, f"{value.whole.describe()} is copied as its own methods show it")
