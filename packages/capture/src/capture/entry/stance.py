"""The stance: what happens where a function would have to be captured, decided for the whole process, on a miss.

A warm call never asks.  "force_eager" is the engine's: regions then call their functions as if they were not there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from capture import _engine, state
from capture.errors import Location, RecompileRefused

STANCES: Mapping[str, str] = {
    "default": "capture what has not been captured",
    "force_eager": "run everything in CPython, captured or not",
    "eager_on_recompile": "use what was captured; what was not runs in CPython",
    "fail_on_recompile": "use what was captured; what was not raises RecompileRefused",
}


@contextlib.contextmanager
def only_what_was_captured() -> Iterator[None]:
    """A context in which nothing is captured on this thread."""
    here = state.PROCESS.of_thread
    here.only_captured += 1
    try:
        yield
    finally:
        here.only_captured -= 1


def set_stance(name: str) -> str:
    """Takes a stance; returns the one before."""
    if name not in STANCES:
        raise ValueError(f"there is no stance {name!r}; stances are {', '.join(STANCES)}")
    process = state.PROCESS
    with process.stance_lock:
        before, process.stance = process.stance, name
        _engine.switch_regions(name != "force_eager")
    return before


def is_default() -> bool:
    """True if nothing stands in the way of what captures do."""
    return state.PROCESS.stance == "default" and not state.PROCESS.of_thread.only_captured


def may_translate(location: Location, why: Callable[[], str | None]) -> bool:
    """True if a frame that no version fits may be captured now; under "fail_on_recompile" it raises instead."""
    if state.PROCESS.stance == "fail_on_recompile":
        failed = why() or "it was never captured"
        raise RecompileRefused(f'{location} would be captured, and the stance is "fail_on_recompile": {failed}')
    return is_default()
