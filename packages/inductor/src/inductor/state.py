"""What a process has one of in this package: one object, whose fields tests may replace for a while."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

from inductor.counting import Metrics


def _nobody() -> ContextVar[Callable[[str], None] | None]:
    return ContextVar("hears_complaints", default=None)


@dataclass(slots=True)
class State:
    """Everything else is passed as an argument, or is what a function would answer again."""

    graph_numbers: Iterator[int] = field(default_factory=itertools.count)
    """Graphs are named by them."""

    metrics: Metrics = field(default_factory=Metrics)
    """Counts over all graphs: ``inductor.metrics``."""

    hears_complaints: ContextVar[Callable[[str], None] | None] = field(default_factory=_nobody)
    """Who is told what a graph works without; a warning says it where nobody is."""

    tracer: threading.Lock = field(default_factory=threading.Lock)
    """Torch's tracer takes the place of functions of the whole process while it runs: one thread at a time."""

    unusable_folders: set[str] = field(default_factory=set)
    """The folders of caches that were said not to be written to."""

    spare_folder: tempfile.TemporaryDirectory[str] | None = None
    """Where kernels are built when the user's cache cannot be used; it ends with the process."""

    making_folder: threading.Lock = field(default_factory=threading.Lock)


STATE = State()
