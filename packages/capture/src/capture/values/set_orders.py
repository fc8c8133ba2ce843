"""The order of sets: CPython's own affair, by the hashes of the items and by how the set was filled.

What a set holds says nothing of its order, and another process has another one for texts and for all that is hashed by
its address.  So whoever goes through a set relies on more than its items: of one on a path on the order that it has
there, which is guarded; of any other one on this process, which is noted.
Must not know which operations go through sets.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from capture.guards.kinds import GuardKind
from capture.guards.sources import Source
from capture.values.base import Tracer

Order = tuple[Source, tuple[object, ...]]
"""A set on a path, and its items in its order."""

UNKNOWN = "it goes through a set, whose order is another one in each process"


def rely_on_order(ctx: Tracer, order: Order) -> None:
    """Relies on the set on a path being in this order; that it holds these items is guarded already."""
    source, items = order
    if len(items) > 1:
        text = f"{source.expression()} is in the order of {items!r}"
        ctx.guard(source, GuardKind.PYTHON, functools.partial(is_in_order, items), text=text)


def is_in_order(items: tuple[object, ...], found: Iterable[object]) -> bool:
    return tuple(found) == items


def holds_a_set(obj: object) -> bool:
    """True if an order is within a constant."""
    if type(obj) is frozenset:
        return len(obj) > 1 or any(map(holds_a_set, obj))
    return isinstance(obj, (tuple, list)) and any(map(holds_a_set, obj))
