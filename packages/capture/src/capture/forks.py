"""State that a forked child must not inherit of threads that are not there: their locks, their pause of collections."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ProcessLock:
    """As ``threading.RLock``, but a child process finds it open."""

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    @contextmanager
    def held(self) -> Iterator[None]:
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
        with self._lock:
            yield


class CollectionPause:
    """No garbage collection meanwhile: a translation makes many objects that stay, and beside a library as large as
    torch every search for garbage among them takes a quarter of a second."""

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
        if self._thread not in (None, threading.get_ident()):
            self._thread = None
            gc.enable()
