"""Numbers whose value only the run will tell: read out of a tensor, passed in and known to vary, or computed from such.

Each has two forms.  In Python it is computed after the graph, by Python's own arithmetic, and only if somebody wants
it.  In the graph it is a tensor without dimensions, in double precision, whose arithmetic is that of Python's floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from capture.sources import Source
from capture.values.base import Tracer, Value
from capture.values.tensor import TensorValue


class ScalarValue(Value):
    """``tensor`` holds the number, or it is what ``function`` makes of ``operands``, or is found at ``source``."""

    def __init__(
        self,
        cls: type,
        *,
        tensor: TensorValue | None = None,
        function: Callable[..., Any] | None = None,
        operands: Sequence[Value] = (),
        source: Source | None = None,
    ) -> None:
        self.cls = cls
        self.tensor = tensor
        self.function = function
        self.operands = tuple(operands)
        self.source = source

    def python_type(self) -> type:
        return self.cls

    def truth(self, ctx: Tracer) -> bool:
        return ctx.stop(
            "tensor value", f"the truth of {self.describe()} decides what happens next", "use torch.where or torch.cond"
        )

    def parts(self) -> Iterator[Value]:
        if self.function is None and self.tensor is not None:
            yield self.tensor
        yield from self.operands

    def describe(self) -> str:
        if self.source is not None:
            return f"a number that varies ({self.source.expression()})"
        return "a number read out of a tensor" if self.function is None else "a number computed from a tensor's"
