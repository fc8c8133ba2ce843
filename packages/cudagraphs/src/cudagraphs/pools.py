"""The managers of one device, one pool each: the last one records, earlier ones only replay what they have.

There is more than one only where a recording was broken off in a way that cost its pool.  Memory of different pools
never meets, so managers need not know one another: what one lends is ordinary memory to the others.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from .manager import Manager
from .report import Report
from .show import show_tree

MOST = 4
"""A function that costs a pool costs every pool; after some of them nothing more is recorded."""


class Pools:
    """Managers in the order in which they were made."""

    def __init__(self, make: Callable[[], Manager]) -> None:
        self._make = make
        self._lock = Lock()
        self.managers = [make()]

    def current(self) -> Manager:
        """The manager that makes recordings."""
        with self._lock:
            if self.managers[-1].sealed and len(self.managers) < MOST:
                self.managers.append(self._make())
            return self.managers[-1]

    def step_begin(self, *, release: bool) -> None:
        """A new step, in all of them."""
        for manager in self.managers:
            manager.step_begin(release=release)

    def report(self) -> Report:
        """What happened in all of them."""
        first, *others = [manager.report() for manager in self.managers]
        return sum(others, start=first)

    def show(self) -> str:
        """Their trees, drawn."""
        return "\n".join(show_tree(manager.tree) for manager in self.managers)

    def reset(self) -> None:
        """Forget all recordings."""
        for manager in self.managers:
            manager.reset()

    def poison(self) -> None:
        """Fill what nobody holds."""
        for manager in self.managers:
            manager.poison()
