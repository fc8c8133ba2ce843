"""Silence about what is tried on samples, on one thread.

``warnings.catch_warnings`` would be for every thread: two that overlap put back each other's filters.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class _OfThread(threading.local):
    """The pattern of a filter, for one thread: to others no text fits."""

    # Not Python code: a thread that goes through the filters is not held up between two of them.
    match: Callable[[str], object] = callable  # says no to any text


@contextmanager
def quiet() -> Iterator[None]:
    """A context in which nobody is warned, on this thread."""
    pattern = _OfThread()
    pattern.match = type  # a type is as good as yes
    ours, filters = ("ignore", pattern, Warning, None, 0), warnings.filters
    filters.insert(0, ours)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        # Another thread may have a copy in force, and put this list back later.
        for each in (filters, warnings.filters):
            with suppress(ValueError):
                each.remove(ours)  # type: ignore[attr-defined]
