"""Garbage collection suspended during work that makes many objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Suspends garbage collection for work that makes many objects and keeps them: beside a library as large as torch
    every search for garbage among them takes a quarter of a second, and finds none."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
