"""One line on a terminal that says what a long compilation is doing.  Quiet where it is short or nobody watches."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TextIO

_EVERY = 0.5
"""Seconds between two paintings of the line while one stage lasts."""


@dataclass
class Progress:
    """Rewrites one line of ``stream`` from ``after`` seconds on, until ``done``; without a stream it does nothing."""

    stream: TextIO | None = None
    after: float = 2.0
    _started: float = field(default_factory=time.perf_counter)
    _text: str = ""
    _shown: bool = False
    _ticking: threading.Event | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def for_terminal(after: float = 2.0) -> Progress:
        """A line on standard error if that is a terminal; else one that does nothing."""
        return Progress(sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None, after)

    def restart(self) -> None:
        """A graph begins.  A stage may last longer than anyone calls us, so a thread looks at the clock."""
        self._started = time.perf_counter()
        if self.stream is not None and self._ticking is None:
            self._ticking = threading.Event()
            threading.Thread(target=self._tick, args=(self._ticking,), daemon=True).start()

    def stage(self, text: str) -> None:
        self._text = text
        self._paint()

    def done(self) -> None:
        if self._ticking is not None:
            self._ticking.set()
            self._ticking = None
        with self._lock:
            if self._shown and self.stream is not None:
                self.stream.write("\r\033[K")
                self.stream.flush()
            self._shown, self._text = False, ""

    def _tick(self, ended: threading.Event) -> None:
        while not ended.wait(_EVERY):
            self._paint()

    def _paint(self) -> None:
        elapsed = time.perf_counter() - self._started
        with self._lock:
            if self.stream is None or not self._text or elapsed < self.after:
                return
            self._shown = True
            self.stream.write(f"\r\033[Kcompiling: {self._text} ({elapsed:.1f} s)")
            self.stream.flush()
