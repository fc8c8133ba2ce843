"""Paths below the module that is called, each a step from another one, so that they can be followed from any root.

Only steps that run no code of the program are followed; all others refuse.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from capture.guards.sources import (
    Derived,
    DictSource,
    HiddenEntrySource,
    ItemSource,
    KeySource,
    Source,
    TypeSource,
)


class Refused(Exception):
    """The call is not one of those that may be done again."""


class Missing:
    """What is found where nothing is."""


MISSING = Missing()
PLAIN_DICTS = (dict, collections.OrderedDict)
Step = tuple[int, type[Derived], Any]
"""The number of the path that this goes on from, how, and to what."""


def _entry(owner: object, key: Any) -> object:
    if type(owner) not in PLAIN_DICTS or type(key) not in (str, int):
        raise Refused
    return owner[key] if key in owner else MISSING  # type: ignore[operator, index]


def _item(owner: object, index: Any) -> object:
    if type(owner) not in (list, tuple):
        raise Refused
    return owner[index] if index < len(owner) else MISSING  # type: ignore[index, arg-type, operator]


def _dict(owner: object, _: Any) -> object:
    return object.__getattribute__(owner, "__dict__")


_READERS: dict[type[Derived], Callable[[Any, Any], object]] = {
    DictSource: _dict,
    KeySource: _entry,
    HiddenEntrySource: _entry,
    ItemSource: _item,
    TypeSource: lambda owner, _: type(owner),
}


class Paths:
    """Numbered paths below a root, and what is found on each; the root has the number 0."""

    def __init__(self, root: Source, obj: object) -> None:
        self.sources: list[Source] = [root]
        self.objects: list[object] = [obj]
        self.steps: list[Step] = []  # of all but the root
        self._numbers: dict[Source, int | None] = {root: 0}

    def number(self, source: Source) -> int | None:
        """Of a path, which is added if need be; None where it does not lead through the root."""
        if source in self._numbers:
            return self._numbers[source]
        found: int | None = None
        if source.base is not None and (parent := self.number(source.base)) is not None:
            found = self._add(source, parent)
        self._numbers[source] = found
        return found

    def _add(self, source: Source, parent: int) -> int:
        kind: Any = type(source)
        if kind not in _READERS:
            raise Refused
        told: Any = getattr(source, "key", getattr(source, "index", None))
        self.follow((parent, kind, told), source)
        return len(self.sources) - 1

    def follow(self, step: Step, source: Source | None = None) -> None:
        """Go one step on."""
        parent, kind, told = step
        owner = self.objects[parent]
        if owner is MISSING:
            raise Refused
        self.objects.append(_READERS[kind](owner, told))
        self.steps.append(step)
        if source is None:
            make: Any = kind
            base = self.sources[parent]
            source = make(base) if kind in (DictSource, TypeSource) else make(base, told)
        self.sources.append(source)
