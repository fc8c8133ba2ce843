"""Functions that transformed code calls to get an iterator that is where the evaluation left it."""

from __future__ import annotations

import collections
from typing import Any


def sequence_iterator(items: Any, position: int) -> object:
    """The iterator of a sequence at a position."""
    made = iter(items)
    if position and hasattr(made, "__setstate__"):
        made.__setstate__(position)
        return made
    return advanced(made, position)


def reverse_iterator(items: Any, position: int) -> object:
    """The reverse iterator of a sequence whose next item is at ``position``."""
    made = reversed(items)
    made.__setstate__(position)
    return made


def deque_iterator(items: collections.deque[object], count: int, backwards: bool) -> object:
    """The iterator of a deque after ``count`` steps."""
    return advanced(reversed(items) if backwards else iter(items), count)


def dict_iterator(mapping: object, which: str, count: int, backwards: bool) -> object:
    """The iterator of a dict's view, past any methods of a subclass, after ``count`` steps."""
    base = next((base for base in (collections.OrderedDict, dict) if isinstance(mapping, base)), type(mapping))
    view = getattr(base, which)(mapping)
    return advanced(reversed(view) if backwards else iter(view), count)


def exhausted(kind: type) -> object:
    """An iterator of this kind of container at its end, where it stays."""
    made = iter(kind())
    next(made, None)
    return made


def advanced(iterator: Any, count: int) -> object:
    """The iterator after ``count`` steps, the one beyond the last item included."""
    for _ in range(count):
        next(iterator, None)
    return iterator
