"""The stance: what happens where a function would have to be captured, decided for the whole process, on a miss.

A warm call never asks.  "force_eager" is the engine's: regions then call their functions as if they were not there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping

from capture import _engine
from capture.errors import Location, RecompileRefused

STANCES: Mapping[str, str] = {
    "default": "capture what has not been captured",
    "force_eager": "run everything in CPython, captured or not",
    "eager_on_recompile": "use what was captured; what was not runs in CPython",
    "fail_on_recompile": "use what was captured; what was not raises RecompileRefused",
}


class _Here(threading.local):
    """How many calls on this thread use only what was captured."""

    calls = 0


_HERE = _Here()


@contextlib.contextmanager
def only_what_was_captured() -> Iterator[None]:
    """Nothing is captured on this thread meanwhile."""
    _HERE.calls += 1
    try:
        yield
    finally:
        _HERE.calls -= 1


class _Chosen:
    """The stance of this process."""

    def __init__(self) -> None:
        self.name = "default"
        self.lock = threading.Lock()


_CHOSEN = _Chosen()


def set_stance(name: str) -> str:
    """Takes a stance; returns the one before."""
    if name not in STANCES:
        raise ValueError(f"there is no stance {name!r}; stances are {', '.join(STANCES)}")
    with _CHOSEN.lock:
        before, _CHOSEN.name = _CHOSEN.name, name
        _engine.switch_regions(name != "force_eager")
    return before


def is_default() -> bool:
    """Whether nothing stands in the way of what captures do."""
    return _CHOSEN.name == "default" and not _HERE.calls


def may_translate(location: Location, why: Callable[[], str | None]) -> bool:
    """Whether a frame that no version fits may be captured now; under "fail_on_recompile" it raises instead."""
    if _CHOSEN.name == "fail_on_recompile":
        failed = why() or "it was never captured"
        raise RecompileRefused(f'{location} would be captured, and the stance is "fail_on_recompile": {failed}')
    return is_default()
