"""Signals that come while a frame is evaluated: their handlers wait until the next instruction.

Evaluation runs torch's operators on stand-ins, and there C++ calls Python at places which no exception may leave: a
handler that raises, as that of Ctrl-C does, would end the process.  Backends see signals as everybody does.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # looks nothing up that a program may have replaced
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Handler = Callable[[int, Any], Any]

_NUMBERS = tuple(
    getattr(_signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(_signal, name)
)
"""Those that programs have handlers for.  The one of Ctrl-C is the first to be replaced and the last to be put back."""


class HeldSignals:
    """The handlers that wait, while one translation is under way in the main thread; no others run any."""

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self.waiting: list[int] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        if self._handlers or threading.current_thread() is not threading.main_thread():
            yield
            return
        try:
            self._hold()
            yield
        finally:
            self._put_back()

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """While a backend compiles, nothing waits."""
        held = bool(self._handlers)
        self._put_back()
        try:
            yield
        finally:
            if held:
                self._hold()

    def deliver(self) -> None:
        """Between two instructions: what came meanwhile is handled now, and may raise."""
        while self.waiting:
            number = self.waiting.pop(0)
            handler = self._handlers.get(number)
            if handler is not None:
                handler(number, sys._getframe(1))

    def _hold(self) -> None:
        for number in _NUMBERS:
            handler = _signal.getsignal(number)
            if callable(handler) and handler != self._note:
                self._handlers[number] = handler
                _signal.signal(number, self._note)

    def _put_back(self) -> None:
        held = dict(self._handlers)
        while self._handlers:
            _signal.signal(*self._handlers.popitem())
        self._handlers.update(held)
        try:
            self.deliver()
        finally:
            self._handlers.clear()

    def _note(self, number: int, frame: Any) -> None:
        """A second one of its kind does not wait: where an instruction takes that long, somebody wants out."""
        if number not in self.waiting:
            self.waiting.append(number)
            return
        self.waiting.remove(number)
        self._handlers[number](number, frame)
