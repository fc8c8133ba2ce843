"""The changes made to objects from before: seen at once inside, replayed when the frame leaves.

The new state lives in the values themselves (a list's items, an object's overlay); here is only who changed, in
order. How a change is replayed is the emitter's business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from capture import break_errors
from capture.values.base import Tracer, Value, settled
from capture.values.classes import ClassValue
from capture.values.clock import ClockReading
from capture.values.context import TorchContext
from capture.values.function import NamespaceValue
from capture.values.held_locks import Locks


class Taken(Value):
    """An item that was taken out of a container that existed before; stands for the place where that happened."""

    def __init__(self, container: Value, item: Value) -> None:
        self.container = container
        self.item = item

    def is_put_back(self) -> bool:
        """True if the container has the item again."""
        return any(settled(part) is settled(self.item) for part in self.container.parts())


class Effects:
    """The effects of one evaluation: objects that were changed, state of the library, locks, clocks and calls."""

    def __init__(self) -> None:
        self._changed: dict[Value, None] = {}
        self._made: dict[Value, None] = {}  # what exists only here, and was changed
        self.contexts: list[TorchContext] = []
        self.locks = Locks()
        self.calls: list[tuple[Callable[..., object], Sequence[Value]]] = []  # made after the graph, in their order
        self.breaks_are_errors = break_errors.set_here()
        self.clocks: list[ClockReading] = []  # in their order
        self.taken: list[Taken] = []
        self.classes = False  # whether members of some were written
        self.shows_classes = False  # whether the members of one are looked at by a path that does not tell which
        self.namespaces = False  # whether globals of some were
        self.final: dict[Value, Any] = {}  # what must not change any more; else evaluation stops where that began
        self._watched: list[dict[Value, list[Value]]] = []  # what changes while somebody watches, for each who does

    def note(self, value: Value) -> None:
        """``value`` is about to change; only objects that exist already need a replay."""
        for changes in self._watched:
            if value not in changes:
                changes[value] = list(value.changes())
        if value.source is not None or isinstance(value, NamespaceValue):
            self._changed.setdefault(value)
            self.classes |= isinstance(value, ClassValue)
            self.namespaces |= isinstance(value, NamespaceValue)
        # Nothing to replay, but it may be part of a circle that only `let_go` breaks.
        elif type(value).let_go is not Value.let_go:
            self._made.setdefault(value)

    def take(self, ctx: Tracer, container: Value, item: Value) -> None:
        """``item`` was in ``container``, which others may look into as well."""
        if container.source is not None:
            self.taken.append(Taken(container, item))
            ctx.note_origin(self.taken[-1])

    @contextlib.contextmanager
    def watched(self) -> Iterator[Mapping[Value, Sequence[Value]]]:
        """All that changes from here on, whether it changed before or not, with what it referred to before it did."""
        changes: dict[Value, list[Value]] = {}
        self._watched.append(changes)
        try:
            yield changes
        finally:
            self._watched = [each for each in self._watched if each is not changes]  # others may be equal

    def let_go(self) -> None:
        """Values that were written to may refer to one another, and to themselves."""
        for value in [*self._changed, *self._made]:
            value.let_go()

    def changed(self) -> list[Value]:
        """The objects from before that were changed, in the order of their first change."""
        return list(self._changed)

    def written_values(self) -> Iterator[Value]:
        """Everything that the changed objects now refer to."""
        for value in self._changed:
            yield from value.changes()
        for _, operands in self.calls:
            yield from operands

    def __bool__(self) -> bool:
        return bool(self._changed)

    def enter(self, context: TorchContext) -> None:
        self.contexts.append(context)

    def leave(self, context: TorchContext) -> None:
        self.contexts.remove(context)
