"""Everything that can stop a capture, in one hierarchy.

Two families: what the user sees (``CaptureError`` and below) and signals between the parts of the evaluator
(``Signal`` and
below), which never leave the package.  This module knows nothing of frames, values or torch.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

from capture.reasons import Reason


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's program."""

    filename: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The text of the line, if it can be found."""
        return linecache.getline(self.filename, self.line).strip()

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} in {self.function}"


def words_of(error: BaseException) -> str:
    """An exception in a sentence of ours: its type, and what it says if it says something."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else f"{type(error).__name__}, which says no more"


class CaptureError(Exception):
    """Base of every error that a user of this package can see.

    What stops a program is a ``RuntimeError`` too, as it is with torch's own compiler.
    """


class Unsupported(CaptureError, RuntimeError):
    """Raised under ``nopython=True`` and by ``export`` where the function cannot be captured whole."""

    def __init__(self, reason: Reason, location: Location) -> None:
        self.reason = reason
        self.location = location
        lines = [
            f"cannot capture the whole function: {reason.explanation}",
            f"  at {location}",
        ]
        if location.source:
            lines.append(f"    {location.source}")
        if reason.hint:
            lines.append(f"  try: {reason.hint}")
        super().__init__("\n".join(lines))


class RecompileRefused(CaptureError, RuntimeError):
    """A function would have to be captured, and the stance "fail_on_recompile" or a setting of the program says no."""


class RecompileLimitHit(CaptureError, RuntimeError):
    """No version fits and there are as many as there may be, where a setting of the program makes that an error."""


class BackendError(CaptureError, RuntimeError):
    """The backend did not compile a graph, where its own exception is the cause, or made something else of it.

    That is something which returns other results than the graph.
    """


class InternalError(CaptureError):
    """A mistake of ours, raised only under ``strict``; otherwise the frame runs in CPython and a record is kept."""


class CaptureWarning(UserWarning):
    """Said once for each frame that is given up: an internal error, or too many recompilations."""


class Signal(Exception):
    """Base of the control flow inside the evaluator."""


class Break(Signal):
    """Raised at an instruction that cannot be evaluated symbolically: CPython has to run it."""

    def __init__(self, reason: Reason, location: Location | None = None) -> None:
        self.reason = reason
        self.location = location
        super().__init__(reason.explanation)


class SkipFrame(Signal):
    """Raised where nothing is gained by capturing this frame: CPython runs it."""

    def __init__(self, reason: Reason, *, always: bool = True, location: Location | None = None) -> None:
        self.reason = reason
        self.always = always
        self.location = location
        super().__init__(reason.explanation)


class UserRaised(Signal):
    """The user's program raises; ``value`` is the symbolic exception.  The machine looks for a handler."""

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__(repr(value))

    def was_caught(self) -> None:
        """Drops the traceback, whose frames refer to it: what the program let go would live on in a cycle."""
        self.__traceback__ = self.__context__ = None
