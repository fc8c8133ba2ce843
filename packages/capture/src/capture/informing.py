"""Notices to the user: that a graph runs uncompiled, that a function was captured too often.

It is information, and where a program has all warnings raised as errors (``-W error``) it is shown: the program's
results are right, and it goes on.  Where a filter names it, by its category, its text or its module, it is an error: of
the call, once, and after what was under way is finished and kept.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from capture import state
from capture.errors import Location
from capture.origins import OURS

_MODULE = "capture"
_ABOVE_US = frozenset({*OURS, "torch", "contextlib", "functools"})


class Pattern(Protocol):
    """One of ``re``, or what is put in its place."""

    def match(self, text: str, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Filter:
    """One of ``warnings.filters``, and how Python reads it."""

    action: str
    text: str | Pattern | None
    category: type[Warning] | tuple[type[Warning], ...]
    module: str | Pattern | None
    line: int

    def holds_for(self, text: str, category: type[Warning], module: str, line: int) -> bool:
        return (
            (self.text is None or _matches(self.text, text))
            and issubclass(category, self.category)
            and (self.module is None or _matches(self.module, module))
            and self.line in (0, line)
        )

    def names_somebody(self) -> bool:
        """True if it is about certain warnings, not about all, or all of one of Python's own categories."""
        categories = self.category if isinstance(self.category, tuple) else (self.category,)
        pythons_own = any(each.__module__ == "builtins" for each in categories)
        return self.text is not None or self.module is not None or not pythons_own


def filter_for(text: str, category: type[Warning], module: str, line: int) -> Filter | None:
    """The filter that decides on a warning."""
    known = (Filter(*each) for each in warnings.filters)
    return next((each for each in known if each.holds_for(text, category, module, line)), None)


def _matches(pattern: str | Pattern, text: str) -> bool:
    return bool(re.match(pattern, text) if isinstance(pattern, str) else pattern.match(text))


@dataclass(frozen=True, slots=True)
class _PlacedWarning:
    warning: Warning
    filename: str
    line: int

    def give(self) -> None:
        """Raises it where a filter that names it says so."""
        try:
            remembered = state.PROCESS.places_that_warned
            warnings.warn_explicit(
                self.warning, type(self.warning), self.filename, self.line, module=_MODULE, registry=remembered
            )
        except type(self.warning) as error:
            if error is not self.warning or self._is_meant():
                raise
            self.show()

    def show(self) -> None:
        warnings.showwarning(self.warning, type(self.warning), self.filename, self.line)

    def _is_meant(self) -> bool:
        """True if the filter that makes an error of it is about this warning, and no general one."""
        decides = filter_for(str(self.warning), type(self.warning), _MODULE, self.line)
        return decides is not None and decides.names_somebody()


def inform(warning: Warning, where: Location | None = None) -> None:
    """Tells of ``warning``, at a line of the program: the one that called us, where none is given."""
    notice = (
        _PlacedWarning(warning, where.filename, where.line)
        if where is not None
        else _PlacedWarning(warning, *_calling_line())
    )
    waiting = state.PROCESS.of_thread.notices
    if waiting is not None:
        waiting.append(notice)
    else:
        notice.give()


class Waiting:
    """The notices that wait while something is under way that an exception must not end.

    Where something further out has notices wait, they wait there.
    """

    def __init__(self) -> None:
        self._notices: list[state.Notice] = []

    def __bool__(self) -> bool:
        return bool(self._notices)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """A context in which notices wait."""
        here = state.PROCESS.of_thread
        if here.notices is not None:
            yield
            return
        here.notices = self._notices
        try:
            yield
        finally:
            here.notices = None

    def tell(self) -> None:
        """Gives all of them, and then raises the first that is to be raised."""
        to_raise = self._given()
        for notice in to_raise[1:]:
            notice.show()
        if to_raise:
            raise to_raise[0].warning

    def show(self) -> None:
        """Shows all of them, where another error is on its way."""
        for notice in self._given():
            notice.show()

    def _given(self) -> list[state.Notice]:
        """The notices that are to be raised; the others are given."""
        notices, self._notices = self._notices, []
        return [each for each in notices if _is_to_be_raised(each)]


def _is_to_be_raised(notice: state.Notice) -> bool:
    try:
        notice.give()
    except type(notice.warning):
        return True
    return False


def _calling_line() -> tuple[str, int]:
    """The line of the program that called us, past our packages and torch."""
    frame = sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _ABOVE_US:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
