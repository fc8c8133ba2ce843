"""Torch's rule that some of its warnings are given once in a process, lifted while any thread runs on fakes.

Must not know: what runs on fakes.
"""

from __future__ import annotations

import threading

import torch


class OnceOnly:
    """The count of threads that have the rule lifted, and the program's own setting of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._lifted_by_program = False

    def lift(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._lifted_by_program = torch.is_warn_always_enabled()
                torch.set_warn_always(True)

    def put_back(self) -> None:
        with self._lock:
            # None in a child that was forked in between.
            self._users = max(0, self._users - 1)
            if not self._users:
                torch.set_warn_always(self._lifted_by_program)

    def in_child(self) -> None:
        """Puts the rule back in a forked child, where the threads that lifted it are not, nor one that has the lock."""
        self._lock = threading.Lock()
        if self._users:
            self._users = 0
            torch.set_warn_always(self._lifted_by_program)
