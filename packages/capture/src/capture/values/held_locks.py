"""Locks that the evaluated code takes and releases.  None is touched meanwhile: the written code takes them.

A lock that is taken is taken by the written code once, before the graph if anything of it is computed under the lock
and before the effects otherwise, and released behind the effects.  It is so held longer than the program says, never
shorter, which is right as long as no second lock is taken in the time that was added: the program may take the two in
another order elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from capture.guards.sources import Source
from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.lock import RLOCK

_HINT = "what runs under the lock is captured on its own; hold it around the compiled function for one graph"


@dataclass(slots=True)
class Hold:
    """One lock, and how often it was taken here less how often it was released."""

    lock: Value
    taken_here: bool
    """True if it was first taken here; if it was first released, whoever came before holds it."""
    balance: int = 0

    @property
    def owed(self) -> int:
        """The number of times that it is still to be taken behind the effects; below zero, to be released."""
        return self.balance - self.taken_here

    def is_held(self) -> bool:
        return self.owed >= 0


class Locks:
    """The locks that were taken or released so far, and whether the graph grew while one was held."""

    def __init__(self) -> None:
        self._holds: dict[Value, Hold] = {}
        self._nodes = 0
        self._over_graph = False
        self.read: set[Source] = set()
        """The sources of numbers that were read while a lock was held that was taken here."""

    def note_read(self, source: Source) -> None:
        """Notes that a number is read: if the graph is given it, the lock has to be held by then."""
        if self.is_holding():
            self.read.add(source)

    def holds(self) -> list[Hold]:
        return list(self._holds.values())

    def is_holding(self) -> bool:
        """True if a lock is held that was taken here."""
        return any(hold.taken_here and hold.is_held() for hold in self._holds.values())

    def is_held(self, lock: Value) -> bool:
        hold = self._holds.get(lock)
        return hold is not None and hold.is_held()

    def over_graph(self, nodes: int) -> bool:
        """True if something of the graph, which has so many nodes now, was recorded under a lock that was taken."""
        self._look_at_graph(nodes)
        return self._over_graph

    def _look_at_graph(self, nodes: int) -> None:
        self._over_graph |= self.is_holding() and nodes != self._nodes
        self._nodes = nodes

    def take(self, ctx: Tracer, lock: Value) -> None:
        """Notes that the code takes a lock, where taking it early and releasing it late is right."""
        self._look_at_graph(len(ctx.graph.nodes))
        hold = self._holds.get(lock)
        # The first one would still be held by the written code: an order of two locks that the program never has.
        if hold is None and not all(other.is_held() for other in self._holds.values()):
            ctx.stop(Kind.LOCK, f"{lock.describe()} is taken after another lock was released", _HINT)
        if hold is not None and hold.is_held() and lock.python_type() is not RLOCK:
            ctx.stop(Kind.LOCK, f"{lock.describe()} is taken while it is held", _HINT)
        ctx.changed(lock)
        if hold is None:
            hold = self._holds[lock] = Hold(lock, taken_here=True)
        hold.balance += 1

    def release(self, ctx: Tracer, lock: Value) -> None:
        """Notes that the code releases a lock, held here or, where nothing is known of it, by whoever came before."""
        self._look_at_graph(len(ctx.graph.nodes))
        ctx.changed(lock)
        hold = self._holds.setdefault(lock, Hold(lock, taken_here=False))
        hold.balance -= 1
