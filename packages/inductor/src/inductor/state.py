"""The process-wide state of this package: one object, whose fields tests may replace for a while."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

from inductor.counting import Metrics


def _nobody() -> ContextVar[Callable[[str], None] | None]:
    return ContextVar("complaint_listener", default=None)


@dataclass(slots=True)
class State:
    """The only state of the package; everything else is an argument, or kept by a function that would answer the same
    again."""

    graph_numbers: Iterator[int] = field(default_factory=itertools.count)
    """The numbers that graphs are named by."""

    source_numbers: Iterator[int] = field(default_factory=itertools.count)
    """The numbers in the file names of wrappers: texts are kept by these names, also of wrappers that are gone."""

    metrics: Metrics = field(default_factory=Metrics)
    """Counts over all graphs: ``inductor.metrics``."""

    complaint_listener: ContextVar[Callable[[str], None] | None] = field(default_factory=_nobody)
    """The listener for things that a graph has to do without; where there is none they are warnings."""

    tracer: threading.Lock = field(default_factory=threading.Lock)
    """Held while torch's tracer runs: it patches functions of the whole process, so one thread traces at a time."""

    unusable_folders: set[str] = field(default_factory=set)
    """The folders of caches that were said not to be written to."""

    spare_folder: tempfile.TemporaryDirectory[str] | None = None
    """The folder where kernels are built when the user's cache cannot be used; it is deleted with the process."""

    making_folder: threading.Lock = field(default_factory=threading.Lock)
    """Held while ``spare_folder`` is made."""


STATE = State()
