"""Results of a backend's callable, taken apart: one tensor by itself is as good as a sequence of one.

Anything else that is no sequence of the graph's results is the backend's mistake, and told as that: at the line of the
user's program that the graph was made of, Python's own error would be a riddle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from capture.errors import BackendError
from capture.writing.writer import Writer


@dataclass(frozen=True, slots=True)
class Expected:
    """The facts that an error of the backend's result tells: the code keeps as little as its message says."""

    backend: str
    function: str
    count: int

    def as_backend_error(self, error: BaseException) -> BaseException:
        """The exception that is raised in the place of Python's error."""
        if not isinstance(error, (TypeError, ValueError)):
            return error  # of an iterator of the backend's
        wanted = "the tensor of its graph" if self.count == 1 else f"a sequence of the {self.count} values of its graph"
        return BackendError(
            f"what the backend {self.backend} made of a graph of {self.function} has to return {wanted}: {error}"
        )


class Results:
    """Writes the code that takes the results apart, and the way on which that fails."""

    def __init__(self, writer: Writer, count: int, backend: object, function: str) -> None:
        self.writer = writer
        name = getattr(backend, "__qualname__", None) or type(backend).__qualname__
        self.expected = Expected(name, function, count)
        self._failed = writer.emit.label()

    def unpack(self) -> None:
        """[what was returned] -> the results, the first on top."""
        if self.expected.count == 1:
            self._accept_a_bare_tensor()
        emit = self.writer.emit
        with emit.handled_by(self._failed, 0):
            emit.unpack_sequence(self.expected.count)

    def _accept_a_bare_tensor(self) -> None:
        """Makes a sequence of one of a bare tensor: unpacking it would take it apart by rows."""
        emit, result, done = self.writer.emit, self.writer.fresh("returned"), self.writer.emit.label()
        emit.store_fast(result)
        emit.load_callable(isinstance)
        emit.load_fast(result)
        emit.load_const(torch.Tensor)
        emit.call(2)
        bare = emit.label()
        emit.jump_if_true(bare)
        emit.move_fast(result)
        emit.jump(done)
        emit.place(bare)
        emit.move_fast(result)
        emit.build_tuple(1)
        emit.place(done)

    def write(self, let_go: Callable[[], None]) -> None:
        """Writes the way on which taking apart failed, behind the last instruction.

        Nothing else leads there.  ``let_go`` writes the release of the locks that are held around the graph.
        """
        emit = self.writer.emit
        interrupted = emit.label()
        emit.place(self._failed)
        emit.emit("PUSH_EXC_INFO")
        with emit.handled_by(interrupted, 1, lasti=True):
            let_go()
            emit.load_callable(self.expected.as_backend_error)
            emit.copy(3)
            emit.call(1)
            emit.swap(3)
        emit.emit("POP_EXCEPT")
        emit.pop()
        emit.raise_value()
        emit.put_back_handled(interrupted)
