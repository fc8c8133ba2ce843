"""One line on a terminal that says what a long compilation is doing.  Quiet where it is short or nobody watches."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO


@dataclass
class Progress:
    """Rewrites one line of ``stream`` at each stage, from ``after`` seconds on; without a stream it does nothing."""

    stream: TextIO | None = None
    after: float = 2.0
    _started: float = field(default_factory=time.perf_counter)
    _shown: bool = False

    @staticmethod
    def for_terminal(after: float = 2.0) -> Progress:
        """Shown on standard error if that is a terminal."""
        return Progress(sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None, after)

    def restart(self) -> None:
        self._started = time.perf_counter()

    def stage(self, text: str) -> None:
        elapsed = time.perf_counter() - self._started
        if self.stream is None or elapsed < self.after:
            return
        self._shown = True
        self.stream.write(f"\r\033[Kcompiling: {text} ({elapsed:.1f} s)")
        self.stream.flush()

    def done(self) -> None:
        if self._shown and self.stream is not None:
            self.stream.write("\r\033[K")
            self.stream.flush()
        self._shown = False
