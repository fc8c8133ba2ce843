"""Records of what happened, as data: graphs, breaks, recompilations, graphs that run once, frames given up.

A record is frozen and refers to no tensor, frame or module, so that keeping it keeps nothing alive.  Rendering
belongs to
whoever reads the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from traceback import FrameSummary

from capture.errors import Location
from capture.forks import ProcessLock
from capture.reasons import Reason


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """A graph was recorded, and given to the backend unless a ``SingleRunRecord`` follows."""

    location: Location
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    guards: tuple[str, ...]
    capture_seconds: float
    backend_seconds: float
    code: str = field(repr=False, default="")
    changed: tuple[str, ...] = ()
    """The objects that the function changes besides: after the graph, and not in it."""


@dataclass(frozen=True, slots=True)
class BreakRecord:
    """A graph ended before its function did."""

    location: Location
    reason: Reason

    @property
    def user_stack(self) -> list[FrameSummary]:
        """``location``, as tools that print tracebacks take it."""
        name = self.location.function.rpartition(".")[2]
        return [FrameSummary(self.location.filename, self.location.line, name)]


@dataclass(frozen=True, slots=True)
class RecompileRecord:
    """A function was captured again because no version fitted; ``failed`` is a sentence about the newest version."""

    location: Location
    failed: str


@dataclass(frozen=True, slots=True)
class SingleRunRecord:
    """A graph was run as it was recorded, and not given to the backend: calls like this one find other code."""

    location: Location
    reason: Reason


@dataclass(frozen=True, slots=True)
class FallbackRecord:
    """A frame that CPython runs as if we were not there."""

    location: Location
    reason: Reason
    traceback: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """The outcome of a version and the store: ``stored``, ``not stored``, ``taken up`` or ``refused``.

    ``explanation`` says why.
    """

    location: Location
    outcome: str
    explanation: str = ""


Record = GraphRecord | BreakRecord | RecompileRecord | SingleRunRecord | StoreRecord | FallbackRecord
Subscriber = Callable[[Record], None]


class Log:
    """A bounded list of records; subscribers hear of each as it is added."""

    def __init__(self, capacity: int = 4096) -> None:
        self._records: deque[Record] = deque(maxlen=capacity)
        self._subscribers: tuple[Subscriber, ...] = ()
        self._lock = ProcessLock()

    def add(self, record: Record) -> None:
        with self._lock.held():
            self._records.append(record)
            subscribers = self._subscribers
        for subscriber in subscribers:
            subscriber(record)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Calls ``subscriber`` with every later record; returns the way to stop it."""
        with self._lock.held():
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._lock.held():
                self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)

        return unsubscribe

    def records(self) -> tuple[Record, ...]:
        with self._lock.held():
            return tuple(self._records)

    def clear(self) -> None:
        with self._lock.held():
            self._records.clear()
