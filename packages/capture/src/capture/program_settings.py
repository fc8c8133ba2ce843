"""The program's own settings, read at the moment of a miss: programs change them at any time.

Whoever serves programs that were written for another compiler says how they are read.  A warm call never asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramSettings:
    """The defaults change nothing."""

    disabled: bool = False
    """Nothing more is captured for now."""
    recompile_limit: int | None = None
    """In the place of the default limit; a limit that was given to ``optimize`` stays."""
    recompiling_is_an_error: bool = False
    """A call that no version fits raises ``RecompileRefused``, unless it is the first one."""
    limit_is_an_error: bool = False
    """A call that would need a version more than there may be raises ``RecompileLimitHit``."""
    said_later: tuple[object, ...] = ()
    """Functions that write what they are given somewhere, and may be called at the end of a graph."""
    failures_run_eagerly: bool = False
    """Where a backend fails CPython runs the function, which is said."""


_DEFAULTS = ProgramSettings()


class _Asked:
    read: Callable[[], ProgramSettings] | None = None


def heed(read: Callable[[], ProgramSettings] | None) -> None:
    """From now on ``read`` says what the program's settings are; None: there are none."""
    _Asked.read = read


def program_settings() -> ProgramSettings:
    """What holds now."""
    return _DEFAULTS if _Asked.read is None else _Asked.read()
