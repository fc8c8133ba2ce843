"""The object in the place of `torch.random`'s default generator while a program is traced somewhere.

The thread that traces is told another generator's state, and other threads go on with the default one.
Must not know: what draws.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch


class Answers(Protocol):
    """The state of the generator that a tracing thread sees."""

    def state(self) -> torch.Tensor: ...
    def go_to(self, state: torch.Tensor) -> None: ...
    def leave(self) -> None: ...


class _OfThread(threading.local):
    answering: Answers | None = None


class TracedGenerator:
    """A generator that stands in `torch.random` while any thread traces, and answers each thread for itself."""

    def __init__(self) -> None:
        self._here = _OfThread()
        self._forget_other_threads()
        os.register_at_fork(after_in_child=self._forget_other_threads)

    @contextmanager
    def answered_by(self, answers: Answers) -> Iterator[None]:
        """Has `answers` be the default generator's state for this thread."""
        before, self._here.answering = self._here.answering, answers
        try:
            with self._in_force():
                yield
        finally:
            self._here.answering = before

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        with self._lock:
            # Counted, as several threads may trace: the last one puts torch's own generator back.
            self._users += 1
            _put(self)
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    _put(torch.default_generator)

    def get_state(self) -> torch.Tensor:
        answering = self._here.answering
        return torch.default_generator.get_state() if answering is None else answering.state()

    def set_state(self, state: torch.Tensor) -> None:
        answering = self._here.answering
        (torch.default_generator.set_state if answering is None else answering.go_to)(state)

    def manual_seed(self, seed: int) -> torch.Generator:
        if self._here.answering is not None:
            self._here.answering.leave()
        return torch.default_generator.manual_seed(seed)

    def seed(self) -> int:
        if self._here.answering is not None:
            self._here.answering.leave()
        return torch.default_generator.seed()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.default_generator, name)

    def _forget_other_threads(self) -> None:
        """Starts anew, also in a forked child, where other threads' traces do not go on."""
        self._lock = threading.Lock()
        self._users = 0
        _put(torch.default_generator)


def _put(generator: object) -> None:
    torch.random.default_generator = generator
