"""The program's own settings, read at the moment of a miss: programs change them at any time.

Whoever serves programs that were written for another compiler says how they are read.  A warm call never asks.
"""

from __future__ import annotations

from collections.abc import Callable

from capture import state
from capture.options import ProgramSettings


def heed(read: Callable[[], ProgramSettings] | None) -> None:
    """Has ``read`` say what the program's settings are from now on; None: there are none."""
    state.PROCESS.read_settings = ProgramSettings if read is None else read


def program_settings() -> ProgramSettings:
    """The settings that hold now."""
    return state.PROCESS.read_settings()
