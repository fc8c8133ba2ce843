"""Warnings of what runs on fakes and on samples, kept from the user or said in other words, on one thread.

``warnings.catch_warnings`` would be for every thread: two that overlap put back each other's filters.
Must not know: graphs.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class _OfThread(threading.local):
    """The pattern of a filter, for one thread: to others no text fits."""

    # Not Python code: a thread that goes through the filters is not held up between two of them.
    match: Callable[[str], object] = callable  # says no to any text


@contextmanager
def _ignored(match: Callable[[str], object], category: type[Warning]) -> Iterator[None]:
    """A context in which warnings are ignored whose texts fit."""
    pattern = _OfThread()
    pattern.match = match
    ours, filters = ("ignore", pattern, category, None, 0), warnings.filters
    filters.insert(0, ours)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        # Another thread may have a copy in force, and put this list back later.
        for each in (filters, warnings.filters):
            with suppress(ValueError):
                each.remove(ours)  # type: ignore[attr-defined]


@contextmanager
def quiet() -> Iterator[None]:
    """A context in which nobody is warned, on this thread."""
    with _ignored(type, Warning):  # a type is as good as yes
        yield


@contextmanager
def reworded(other_words: Callable[[str], str]) -> Iterator[None]:
    """A context behind which users are warned in other words, where there are such."""
    found: list[tuple[str, str, int]] = []

    def match(text: str) -> bool:
        said = other_words(text)
        if said == text:
            return False
        frame = sys._getframe(1)
        found.append((said, frame.f_code.co_filename, frame.f_lineno))
        return True

    with _ignored(match, UserWarning):
        yield
    for text, filename, line in found:
        warnings.warn_explicit(text, UserWarning, filename, line)
