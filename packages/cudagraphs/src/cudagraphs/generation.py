"""Steps of the program: where a path of the tree ends and the next begins.

A step ends by itself when nothing that graphs made is held any more, or where the program says so.  Exists to answer
one question: after which recording is a new one placed in the tree?  Safety does not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from .node import Recording
from .storage import Lent


class Steps:
    """Counts the steps and knows the recording that ran last in the present one."""

    def __init__(self) -> None:
        self.number = 0
        self._here: Recording | None = None

    def begin(self) -> None:
        """Begins a new step, back at the root."""
        self.number += 1
        self._here = None

    def ran(self, recording: Recording) -> None:
        """Notes that the path goes on through ``recording``."""
        self._here = recording

    def position(self, live: Sequence[Lent]) -> Recording | None:
        """The recording after which a new one is placed in the tree; nothing alive means that a new step began."""
        if self._here is not None and not live:
            self.begin()
        return self._here
