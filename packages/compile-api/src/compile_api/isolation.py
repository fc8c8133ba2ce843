"""Failures looked for in another process, so that a crash is a failure like any other.

One process serves case after case and is replaced when it dies: starting one takes seconds, a case milliseconds.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import fx

from compile_api.compile import backend_function
from compile_api.minify import failure_of
from compile_api.programs import import_program
from compile_api.stored_graph import StoredGraph

_NO_LIMIT = 1 << 62


class Isolated:
    """``failure_of`` a backend, in a process of its own; called like it, and closed after use."""

    def __init__(self, backend: str, patience: float = 300.0, programs: Sequence[str] = ()) -> None:
        self.backend = backend
        self.programs = tuple(programs)
        self.patience = patience
        self.folder = tempfile.TemporaryDirectory()
        self.process: Any = None
        self.line: Any = None

    def __call__(self, gm: fx.GraphModule, inputs: list[object]) -> str:
        path = Path(self.folder.name) / "case.pt"
        StoredGraph.of(gm, inputs).with_inputs(inputs, _NO_LIMIT).save(path)
        # The first case, or the one after a crash.
        if self.process is None:
            self._start()
        self.line.send(str(path))
        try:
            if not self.line.poll(self.patience):
                self._stop()
                return f"no answer within {self.patience:.0f} s"
            return str(self.line.recv())
        # The other end closes when the process dies: its exit code says by which signal.
        except (EOFError, ConnectionError):
            self.process.join()
            signal = -(self.process.exitcode or 0)
            self.process = None
            return f"crash with signal {signal}" if signal > 0 else "crash"

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self.folder.cleanup()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share torch's threads, which stop there
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.backend, self.programs), daemon=True)
        self.process.start()
        theirs.close()

    def _stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def _serve(line: multiprocessing.connection.Connection, backend: str, programs: tuple[str, ...]) -> None:
    """Serves case after case in the other process, until nobody asks any more."""
    for each in programs:
        import_program(each)
    fails = failure_of(backend_function(backend, strict=True))
    while True:
        try:
            stored = StoredGraph.load(Path(line.recv()))
        except EOFError:
            return
        line.send(fails(stored.module(), stored.example_inputs()))
