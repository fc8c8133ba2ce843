"""The families of architectures, all registered by one call."""

from __future__ import annotations

from corpus import language, vision, written
from corpus.table import CASES


def register_all() -> None:
    if not CASES:
        vision.register()
        language.register()
        written.register()
