"""What a compiled graph works without: its kernels, the cache on disk, the files of its trace.

A warning for who calls this package; who compiles for others may hear of it instead, and tell them as it sees fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_heard_by: ContextVar[Callable[[str], None] | None] = ContextVar("heard_by", default=None)


@contextmanager
def complaints_heard(listener: Callable[[str], None]) -> Iterator[None]:
    before = _heard_by.set(listener)
    try:
        yield
    finally:
        _heard_by.reset(before)


def complain(text: str, *, stacklevel: int = 1) -> None:
    listener = _heard_by.get()
    if listener is not None:
        listener(text)
    else:
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)
