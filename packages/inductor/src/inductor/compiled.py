"""The result of compiling: a callable graph with its report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from inductor.calling import Calling
from inductor.deps import gives_views
from inductor.ir.program import Allocate, Buffer, Call, Program
from inductor.ir.show import program_text
from inductor.report import CompiledKernel, Report


class CompiledGraph:
    """A compiled graph.  ``graph(*inputs)`` runs it; ``graph.call(list)`` does too, and empties the list, so that an
    input's memory is free as soon as the code has read it.  The latter is for other compilers: it looks neither at the
    number and kind of the inputs nor at gradients.  A copy of it is itself.

    ``key`` is what ``inductor.load`` takes: None where nothing was stored, or where the graph holds tensors that only
    it has."""

    __slots__ = ("_bytes", "_has_warned", "_program", "call", "calling", "key", "report", "source")

    def __init__(
        self,
        call: Callable[[list[Any]], tuple[Any, ...]],
        source: str,
        program: Program | Callable[[], Program] | None,
        report: Report,
        calling: Calling | None = None,
        result_bytes: int | None = None,
    ) -> None:
        self.call = call
        self.source = source
        self.report = report
        self.calling = calling
        self.key: str | None = None
        self._program = program
        self._bytes = result_bytes
        self._has_warned = False

    @property
    def kernels(self) -> tuple[CompiledKernel, ...]:
        return self.report.kernels

    @property
    def program(self) -> Program | None:
        """The steps of each call; None where the graph runs operator by operator.  For a graph taken up from the cache
        they are read when first asked for."""
        if self._program is not None and not isinstance(self._program, Program):
            self._program = self._program()
        return self._program

    @property
    def program_text(self) -> str:
        """The steps of each call as text; empty where the graph runs operator by operator."""
        return "" if self.program is None else program_text(self.program)

    @property
    def result_bytes(self) -> int:
        """Bytes of all buffers that one call makes; one whose size varies counts with nothing."""
        if self._bytes is None:
            self._bytes = 0 if self.program is None else sum(map(_size_in_bytes, _buffers_made(self.program)))
        return self._bytes

    def __call__(self, *inputs: object, **named: object) -> tuple[Any, ...]:
        given = [*inputs]
        if self.calling is not None:
            given = self.calling.complete(inputs)
            self.calling.check(given, named)
            if self.calling.held and not self._has_warned and torch.is_grad_enabled():
                self._warn(self.calling)
        return self.call(given)

    def _warn(self, calling: Calling) -> None:
        """Warns, once, that parameters within the graph get no gradients."""
        self._has_warned = True
        warnings.warn(
            f"{calling} holds parameters that require grad ({', '.join(calling.held)}), and a compiled graph computes "
            "no gradients: call it under torch.no_grad(), or make the parameters inputs, and graphs of forward and "
            "backward with aotgrad",
            UserWarning,
            stacklevel=3,
        )

    def __copy__(self) -> CompiledGraph:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> CompiledGraph:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            "a compiled graph cannot be pickled: its kernels are loaded into this process.  Pickle the graph, and "
            "compile it again where it is read: the kernels are found in the cache on disk"
        )

    def __repr__(self) -> str:
        state = "operator by operator" if self.report.failure is not None else f"{len(self.report.kernels)} kernels"
        return f"<compiled {'graph' if self.calling is None else self.calling}: {state}>"


def _buffers_made(program: Program) -> Iterator[Buffer]:
    """The buffers that a program allocates or gets from library calls."""
    for step in program.steps:
        if isinstance(step, Allocate):
            yield step.buffer
        elif isinstance(step, Call) and not step.into and not gives_views(step.target):
            yield from (buffer for buffer in step.outputs if buffer is not None)


def _size_in_bytes(buffer: Buffer) -> int:
    total = buffer.dtype.itemsize
    for size in buffer.sizes:
        number = size.as_int()
        if number is None:
            return 0
        total *= number
    return total
