"""The state of the process and of each of its threads: ``PROCESS``, which a test may replace by a fresh one.

Who reads imports this module and asks ``state.PROCESS`` at that moment; the object itself is no name to import.  The
engine keeps its own in C.  Caches of functions stand beside the functions, tables beside the decorators that fill them.
Must not know: what is done with any of it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from capture.forks import CollectionPause
from capture.log import Log
from capture.once_only import OnceOnly
from capture.options import ProgramSettings
from capture.torch_versions import OpOverloadPacket


class Notice(Protocol):
    """A warning on its way to the user (``informing``)."""

    @property
    def warning(self) -> Warning: ...

    def give(self) -> None: ...

    def show(self) -> None: ...


class Resettable(Protocol):
    """A use of ``optimize`` that can forget what it captured (``entry.hook.Config``)."""

    def forget(self) -> None: ...


class OfThread(threading.local):
    """The state of one thread, by what is under way in it; a new thread begins with these."""

    breaks_are_errors: bool = False
    """True within ``error_on_graph_break(True)``."""
    carrying: int = 0
    """The number of calls that carry what a signal's handler raised: the outermost one unwraps it."""
    handling: int = 0
    """The number of handlers under way whose signals came while something was captured or compiled."""
    only_captured: int = 0
    """The number of calls under way that use only what was captured."""
    notices: list[Notice] | None = None
    """The notices that wait while something is under way that an exception must not end; None: they are given at
    once."""


@dataclass(eq=False, slots=True)
class ReplacedMethods:
    """Methods of Triton's classes that are replaced while somebody traces kernels, and how many trace."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    originals: list[tuple[type, str, object]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class State:
    """One process's state: what the user said for good, counters and locks, and what is under way."""

    of_thread: OfThread = field(default_factory=OfThread)
    log: Log = field(default_factory=Log)
    """The log of all that happened where nobody gave a log of their own."""

    stance: str = "default"
    stance_lock: threading.Lock = field(default_factory=threading.Lock)
    read_settings: Callable[[], ProgramSettings] = ProgramSettings
    """The function that reads the program's own settings."""
    configurations: weakref.WeakSet[Resettable] = field(default_factory=weakref.WeakSet)
    """The configurations that ``reset`` has to reach. They belong to the functions made with them, and die with
    them."""

    allowed: set[int] = field(default_factory=set)
    """Functions that the program said are one node of the graph: by identity, as the next two."""
    disallowed: set[int] = field(default_factory=set)
    """Functions that the program said are CPython's."""
    assumed: set[int] = field(default_factory=set)
    """Functions whose results the program said are constant."""
    kept: list[object] = field(default_factory=list)
    """The functions in those three: an identity is unique only among the living."""

    warned_as_torch_does: set[str] = field(default_factory=set)
    """What written code has warned of, or found that torch had."""
    places_that_warned: dict[str | tuple[str, type[Warning], int], int] = field(default_factory=dict)
    """The registry of places that warned, as Python keeps one for each module: ours, for all of them."""
    once_only: OnceOnly = field(default_factory=OnceOnly)
    """The threads that have torch's warnings given each time, while they run on fakes."""
    collection_pause: CollectionPause = field(default_factory=CollectionPause)
    defining_operators: threading.RLock = field(default_factory=threading.RLock)
    """Held while an operator is defined: torch refuses a second definition."""
    operators: dict[Hashable, OpOverloadPacket] = field(default_factory=dict)
    """The operators that capture defined, by key (``operators.definitions``).  Torch keeps them as long as the process
    lives, so a state that replaces another one takes these over."""
    checkpoints: weakref.WeakKeyDictionary[object, object] = field(default_factory=weakref.WeakKeyDictionary)
    """The graphs that ran within checkpoints around compiled functions (``recording.outer_checkpoints``)."""
    taken_up: dict[str, int] = field(default_factory=dict)
    """By key of a store, the hash of the version that was taken up last."""
    tracing_kernels: ReplacedMethods = field(default_factory=ReplacedMethods)


PROCESS = State()
