"""Forgetting everything that was compiled in this process."""

from __future__ import annotations

import capture


def reset() -> None:
    """Drops all captured graphs; the next call of each compiled function compiles anew."""
    capture.reset()
