"""State that a forked child must not inherit of threads that are not there: their locks, their pause of collections."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ProcessLock:
    """A ``threading.RLock`` that a child process finds open."""

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    @contextmanager
    def held(self) -> Iterator[None]:
        """A context in which the lock is held; a child that was forked meanwhile has a new one."""
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
        with self._lock:
            yield


class CollectionPause:
    """A pause of garbage collection: a translation makes many objects that stay.

    Beside a library as large as torch every search for garbage among them takes a quarter of a second.
    """

    def __init__(self) -> None:
        self._thread: int | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        if not gc.isenabled():
            yield
            return
        self._thread = threading.get_ident()
        gc.disable()
        try:
            yield
        finally:
            self._thread = None
            gc.enable()

    def in_child(self) -> None:
        """Ends the pause in a forked child, where the thread that asked for it is not there."""
        if self._thread not in (None, threading.get_ident()):
            self._thread = None
            gc.enable()
