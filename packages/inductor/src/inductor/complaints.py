"""Complaints: the things that a compiled graph has to do without, such as its kernels, the cache on disk or the files
of its trace.

They are warnings for a user of this package.  A compiler on top of it may listen instead, and report them in its own
way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inductor.state import STATE


@contextmanager
def complaints_heard(listener: Callable[[str], None]) -> Iterator[None]:
    """Has ``listener`` hear the complaints of this context, instead of warnings."""
    before = STATE.complaint_listener.set(listener)
    try:
        yield
    finally:
        STATE.complaint_listener.reset(before)


def complain(text: str, *, stacklevel: int = 1) -> None:
    """Tells the listener, or warns where there is none."""
    listener = STATE.complaint_listener.get()
    if listener is not None:
        listener(text)
    else:
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)
