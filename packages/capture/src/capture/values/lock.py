"""``threading.Lock`` and ``RLock``: the real ones, and those that the evaluated code makes."""

from __future__ import annotations

import threading
from typing import Any

from capture.guards.sources import Source
from capture.values.base import Value

LOCK, RLOCK = type(threading.Lock()), type(threading.RLock())


class LockValue(Value):
    """``obj`` is the real lock, or None where the evaluated code made it; that one is held ``depth`` times."""

    def __init__(self, cls: type, obj: Any = None, source: Source | None = None) -> None:
        self.cls = cls
        self.obj = obj
        self.source = source
        self.depth = 0

    def python_type(self) -> type:
        return self.cls

    def identity(self) -> object:
        return self if self.obj is None else self.obj

    def is_held_now(self) -> bool:
        """True if the real lock is held: for a reentrant one, by this thread."""
        return bool(self.obj._is_owned() if self.cls is RLOCK else self.obj.locked())
