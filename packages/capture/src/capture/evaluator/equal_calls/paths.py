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


MISSING = object()
"""The object that stands for finding nothing."""
PLAIN_DICTS = (dict, collections.OrderedDict)
Step = tuple[int, type[Derived], object]
"""The number of the path that this goes on from, how, and to what."""


def _entry(owner: object, key: object) -> object:
    if not isinstance(owner, dict) or type(owner) not in PLAIN_DICTS or type(key) not in (str, int):
        raise Refused
    return owner.get(key, MISSING)


def _item(owner: object, index: object) -> object:
    if not isinstance(owner, (list, tuple)) or type(owner) not in (list, tuple) or not isinstance(index, int):
        raise Refused
    return owner[index] if index < len(owner) else MISSING


def _dict(owner: object, _: object) -> object:
    return object.__getattribute__(owner, "__dict__")


_READERS: dict[type[Derived], Callable[[object, object], object]] = {
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
        """The number of a path, which is added if need be; None where it does not lead through the root."""
        if source in self._numbers:
            return self._numbers[source]
        found: int | None = None
        if source.base is not None and (parent := self.number(source.base)) is not None:
            found = self._add(source, parent)
        self._numbers[source] = found
        return found

    def _add(self, source: Source, parent: int) -> int:
        kind = type(source)
        if not issubclass(kind, Derived) or kind not in _READERS:
            raise Refused
        key: object = getattr(source, "key", getattr(source, "index", None))
        self.follow((parent, kind, key), source)
        return len(self.sources) - 1

    def lead_to(self, source: Source, number: int) -> bool:
        """Makes a path from elsewhere another name of a numbered one.

        False where it, or what lies behind it, was asked for as a path from elsewhere.
        """
        return self._numbers.setdefault(source, number) == number

    def follow(self, step: Step, source: Source | None = None) -> None:
        """Goes one step on, and keeps what is found there."""
        parent, kind, key = step
        owner = self.objects[parent]
        if owner is MISSING:
            raise Refused
        self.objects.append(_READERS[kind](owner, key))
        self.steps.append(step)
        if source is None:
            make: Any = kind
            base = self.sources[parent]
            source = make(base) if kind in (DictSource, TypeSource) else make(base, key)
        self.sources.append(source)
