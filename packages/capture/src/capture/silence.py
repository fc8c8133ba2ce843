"""Silence about what the program is not to notice: it runs on fakes, or only looks.

What runs on fakes warns of nothing: the graph gives eager's warnings when it runs, of real sizes.  The user's
filters stay as they are, and so does what Python and torch remember of warnings that are given once.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from capture.torch_versions import DisableTorchFunction


class _OfThread:
    """The pattern of a filter: every text fits, in one thread and for a while."""

    def __init__(self) -> None:
        self.thread: int | None = threading.get_ident()

    def match(self, text: str) -> bool:
        return threading.get_ident() == self.thread


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


def records_warnings(log: list[object]) -> bool:
    """True if this is the list of ``warnings.catch_warnings(record=True)``: each warning is added to it as it comes."""
    shows = getattr(warnings, "_showwarnmsg_impl", None)
    return getattr(shows, "__self__", None) is log


@contextlib.contextmanager
def _each_warning(action: str) -> Iterator[None]:
    """A context in which a filter of ours comes first, on this thread.

    ``warnings.catch_warnings`` would besides have Python give again what it gave once.
    """
    pattern = _OfThread()
    kept, once = warnings.filters, not torch.is_warn_always_enabled()
    swapped = [(action, pattern, Warning, None, 0), *kept]
    warnings.filters = swapped  # type: ignore[assignment]
    torch.set_warn_always(True)  # else what torch warns of once would count as given
    try:
        yield
    finally:
        pattern.thread = None
        torch.set_warn_always(not once)
        if warnings.filters is swapped:
            warnings.filters = kept
