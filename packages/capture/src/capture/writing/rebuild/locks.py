"""Locks that the evaluated code made; those of others are taken and released by ``holding``."""

from __future__ import annotations

import threading

from capture.values.lock import RLOCK, LockValue
from capture.writing.writer import Writer, builds, replays


@builds(LockValue)
def build_lock(writer: Writer, value: LockValue) -> None:
    emit = writer.emit
    emit.load_callable(threading.RLock if value.cls is RLOCK else threading.Lock)
    emit.call(0)
    writer.keep(value, "lock")
    for _ in range(value.depth):
        writer.load(value)
        emit.load_attr("acquire")
        emit.to_callable()
        emit.call(0)
        emit.pop()
    writer.load(value)


@replays(LockValue)
def replay_lock(writer: Writer, value: LockValue) -> None:
    """Writes nothing: a lock is released when everything else is done (``writing/lock_blocks``)."""
