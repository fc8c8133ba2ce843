"""Silence about what the program is not to notice: it runs on fakes, or only looks.

What runs on fakes warns of nothing: the graph gives eager's warnings when it runs, of real sizes.  The user's
filters stay as they are, and so does what Python and torch remember of warnings that are given once.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from capture import state
from capture.torch_versions import DisableTorchFunction


class _OfThread(threading.local):
    """The pattern of a filter: every text fits, in one thread and for a while.

    Of what stands here nothing is Python code: another thread that goes through the filters meanwhile is not held up
    between two of them.
    """

    match: Callable[[str], object] = callable  # says no to any text


def looking() -> AbstractContextManager[object]:
    """A context in which tensors are looked at without calling a ``__torch_function__`` of the program's.

    Neither that of a subclass nor that of a mode.
    """
    made: AbstractContextManager[Any] = DisableTorchFunction()
    return made


def silenced() -> AbstractContextManager[None]:
    """A context in which nobody is warned, on this thread."""
    return _each_warning("ignore")


def raised() -> AbstractContextManager[None]:
    """A context in which warnings are exceptions: for who asks whether there would be one."""
    return _each_warning("error")


def raised_if_due() -> AbstractContextManager[None]:
    """A context in which warnings are exceptions, and what torch gives once counts as given then."""
    return _each_warning("error", counts=True)


def records_warnings(log: list[object]) -> bool:
    """True if this is the list of ``warnings.catch_warnings(record=True)``: each warning is added to it as it comes."""
    shows = getattr(warnings, "_showwarnmsg_impl", None)
    return getattr(shows, "__self__", None) is log


@contextlib.contextmanager
def _each_warning(action: str, *, counts: bool = False) -> Iterator[None]:
    """A context in which a filter of ours comes first, on this thread.

    It is put into the list that is there, which other threads may change meanwhile.  ``warnings.catch_warnings`` would
    put an older list in its place, and besides have Python give again what it gave once.
    """
    pattern, filters = _OfThread(), warnings.filters
    pattern.match = type  # says yes to any text
    ours = action, pattern, Warning, None, 0
    filters.insert(0, ours)  # type: ignore[attr-defined]
    if not counts:
        state.PROCESS.once_only.lift()  # else what torch warns of once would count as given
    try:
        yield
    finally:
        if not counts:
            state.PROCESS.once_only.put_back()
        # Another thread may have a copy in force, and put this list back later.
        for each in (filters,) if warnings.filters is filters else (filters, warnings.filters):
            with contextlib.suppress(ValueError):
                each.remove(ours)  # type: ignore[attr-defined]
