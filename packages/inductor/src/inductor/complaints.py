"""What a compiled graph works without: its kernels, the cache on disk, the files of its trace.

A warning for who calls this package; who compiles for others may hear of it instead, and tell them as it sees fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inductor.state import STATE


@contextmanager
def complaints_heard(listener: Callable[[str], None]) -> Iterator[None]:
    before = STATE.hears_complaints.set(listener)
    try:
        yield
    finally:
        STATE.hears_complaints.reset(before)


def complain(text: str, *, stacklevel: int = 1) -> None:
    listener = STATE.hears_complaints.get()
    if listener is not None:
        listener(text)
    else:
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)
