"""Locks and semaphores.  Waiting for one gives no answer to branch on; all else is left to CPython."""

from __future__ import annotations

import threading

from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.constant import FALSE, NONE, TRUE, ConstantValue, is_none
from capture.values.lock import LOCK, RLOCK, LockValue
from capture.values.user_object import UserObject

_HINT = "what runs under the lock is captured on its own; hold it around the compiled function for one graph"
_NO_LIMIT, _ONE = ConstantValue(-1), ConstantValue(1)


@rule(threading.Lock)
def make_lock(ctx: Tracer) -> Value:
    return LockValue(LOCK)


@rule(threading.RLock)
def make_reentrant_lock(ctx: Tracer) -> Value:
    return LockValue(RLOCK)


@rule(LOCK.acquire, RLOCK.acquire, LOCK.__enter__, RLOCK.__enter__, kinds=(LockValue,))
def take(ctx: World, lock: LockValue, blocking: Value = TRUE, timeout: Value = _NO_LIMIT) -> Value:
    """``acquire``: a lock from outside is noted, to be taken by the written code; one made here is only counted."""
    _insist_on_waiting(ctx, lock, blocking, timeout.constant() != -1)
    if lock.source is not None:
        ctx.effects.locks.take(ctx, lock)
    elif lock.depth and lock.cls is not RLOCK:
        ctx.stop(Kind.LOCK, "a lock is taken while it is held", _HINT)
    else:
        lock.depth += 1
    return TRUE


def _insist_on_waiting(ctx: Tracer, lock: Value, blocking: Value, limited: bool) -> None:
    """Breaks the graph where taking a lock may fail, as the program then branches on the answer."""
    if limited or blocking.constant() not in (True, 1):
        ctx.stop(Kind.LOCK, f"{lock.describe()} is taken if it is free", _HINT)


@rule(LOCK.release, RLOCK.release, LOCK.__exit__, RLOCK.__exit__, kinds=(LockValue,))
def release(ctx: World, lock: LockValue, *exception: Value) -> Value:
    """``release`` of a lock; one that was not taken here is relied on being held."""
    if lock.source is None:
        if not lock.depth:
            ctx.throw(RuntimeError, f"{'cannot release un-acquired' if lock.cls is RLOCK else 'release unlocked'} lock")
        lock.depth -= 1
        return NONE
    if not ctx.effects.locks.is_held(lock):
        _rely_on_its_being_held(ctx, lock)
    ctx.effects.locks.release(ctx, lock)
    return NONE


def _rely_on_its_being_held(ctx: World, lock: LockValue) -> None:
    """Relies on a lock that is released here being held when the frame begins."""
    assert lock.source is not None
    if lock in ctx.effects.changed() or not lock.is_held_now():
        ctx.stop(Kind.LOCK, f"{lock.describe()} is released, which was not taken here", _HINT)
    held = type(lock.obj)._is_owned if lock.cls is RLOCK else type(lock.obj).locked
    ctx.guard(lock.source, GuardKind.PYTHON, held, text=f"{lock.source.expression()} is held")


@rule(RLOCK._is_owned, LOCK.locked, kinds=(LockValue,))  # type: ignore[attr-defined]
def is_held(ctx: World, lock: LockValue) -> Value:
    if lock.source is None:
        return TRUE if lock.depth else FALSE
    if ctx.effects.locks.is_held(lock):
        return TRUE
    return ctx.stop(Kind.LOCK, f"{lock.describe()} is asked whether it is held", _HINT)


@rule(threading.Semaphore.acquire, kinds=(UserObject,))
def enter_semaphore(ctx: World, semaphore: UserObject, blocking: Value = TRUE, timeout: Value = NONE) -> Value:
    """``acquire`` of a semaphore, which the written code takes and releases as it does a lock."""
    _insist_on_waiting(ctx, semaphore, blocking, not is_none(timeout))
    if semaphore.source is None or semaphore.overlay:
        ctx.stop(Kind.LOCK, "a semaphore that was made or changed in the captured code is taken", _HINT)
    ctx.effects.locks.take(ctx, semaphore)
    return TRUE


@rule(threading.Semaphore.release, threading.BoundedSemaphore.release, kinds=(UserObject,))
def leave_semaphore(ctx: World, semaphore: UserObject, n: Value = _ONE) -> Value:
    if n.constant() != 1 or not ctx.effects.locks.is_held(semaphore):
        ctx.stop(Kind.LOCK, f"{semaphore.describe()} is released, which was not taken here", _HINT)
    ctx.effects.locks.release(ctx, semaphore)
    return NONE
