"""The pools of one device, with a manager each: the last one records, earlier ones only replay what they have.

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
"""The most pools of a device: a function that costs a pool costs every pool, so nothing more is recorded after some."""


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
        """Begins a new step in all of them."""
        for manager in self.managers:
            manager.step_begin(release=release)

    def report(self) -> Report:
        """The counts and refusals of all of them."""
        first, *others = [manager.report() for manager in self.managers]
        return sum(others, start=first)

    def show(self) -> str:
        """The trees of all managers, drawn."""
        return "\n".join(show_tree(manager.tree) for manager in self.managers)

    def reset(self) -> None:
        """Forgets all recordings."""
        for manager in self.managers:
            manager.reset()

    def poison(self) -> None:
        """Fills the memory that nobody holds."""
        for manager in self.managers:
            manager.poison()
