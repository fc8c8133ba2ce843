"""Data-dependent and dynamic numbers: read out of a tensor, passed in and known to vary, or computed from such.

Each has two forms.  In Python it is computed after the graph, by Python's own arithmetic, and only if somebody wants
it.  In the graph it is a tensor without dimensions, in double precision, whose arithmetic is that of Python's floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from capture.guards.kinds import GuardKind
from capture.guards.sources import Source
from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue

Formula = tuple[object, ...] | None
"""How a number follows from one that was passed in, as data that another process reads: a function with the formulas of
its operands, a constant, or None for the number itself."""


class ScalarValue(Value):
    """``tensor`` holds the number, or it is what ``function`` makes of ``operands``, or is found at ``source``."""

    def __init__(
        self,
        cls: type,
        *,
        tensor: TensorValue | None = None,
        read_from: torch.dtype | None = None,
        function: Callable[..., Any] | None = None,
        operands: Sequence[Value] = (),
        source: Source | None = None,
        now: Any = None,
    ) -> None:
        self.cls = cls
        # The form that the graph takes: given for a number that is read, made when a tensor meets any other.
        self.tensor = tensor
        self.read_from = read_from
        """The dtype of the tensor that the number is read out of."""
        self.function = function
        self.operands = tuple(operands)
        self.source = source
        self.now = now
        """The number that is found at ``source`` in this call."""
        self.symbol: SymbolicNumber | None = None
        """The number as the graph's own, once an operator took it as a size."""

    def python_type(self) -> type:
        return self.cls

    def decided(self, ctx: Tracer) -> bool | None:
        """The truth of what follows from one number that was passed in, relied on from now on; None for others."""
        given = set(self._given())
        if not given:
            return bool(self.of_this_call())
        leaf = given.pop()
        if given or leaf is None or self._depends_on_sizes():
            return None
        # One number that was passed in: Python decides again, for each call, and the same answer is all that is
        # relied on.
        answer = bool(self._computed(leaf.now))
        same_answer = partial(is_decided_alike, leaf.cls, self._formula(), answer)
        text = f"a condition on {leaf.describe()} is {answer}"
        ctx.guard(leaf.source, GuardKind.PYTHON, same_answer, text=text)
        return answer

    def of_this_call(self) -> Any:
        """The number, from now on relied on, where it follows from sizes; None for others."""
        return None if any(True for _ in self._given()) else self._computed(None)

    def _depends_on_sizes(self) -> bool:
        """True if a symbolic size is among the numbers that it is computed from."""
        return any(
            isinstance(op, SymbolicNumber) or (isinstance(op, ScalarValue) and op._depends_on_sizes())
            for op in self.operands
        )

    def _given(self) -> Iterator[ScalarValue | None]:
        """The numbers that this one is computed from; None stands for one that only the graph can tell."""
        if self.source is not None:
            yield self
        elif self.function is None:
            yield None
        for operand in self.operands:
            if isinstance(operand, ScalarValue):
                yield from operand._given()

    def _formula(self) -> Formula:
        if self.function is None:
            return None
        return "of", self.function, *(_formula_of(op) for op in self.operands)

    def _computed(self, number: object) -> object:
        """The number in Python, with `number` in the place of the one that was passed in."""
        if self.function is None:
            return number
        return self.function(*(_operand(op, number) for op in self.operands))

    def truth(self, ctx: Tracer) -> bool:
        decided = self.decided(ctx)
        if decided is not None:
            return decided
        return ctx.stop(
            Kind.TENSOR_VALUE, f"the truth of {self.describe()} decides what happens next", "use torch.where"
        )

    def parts(self) -> Iterator[Value]:
        if self.function is None and self.tensor is not None:
            yield self.tensor
        yield from self.operands

    def describe(self) -> str:
        if self.source is not None:
            return f"a number that varies ({self.source.expression()})"
        return "a number read out of a tensor" if self.function is None else "a number computed from a tensor's"


def _formula_of(operand: Value) -> Formula:
    return operand._formula() if isinstance(operand, ScalarValue) else ("constant", operand.constant())


def is_decided_alike(cls: type, formula: Formula, answer: bool, number: object) -> bool:
    """True if a number of another call gives a condition the same truth."""
    return type(number) is cls and bool(_followed(formula, number)) is answer


def _followed(formula: object, number: object) -> object:
    if not isinstance(formula, tuple):
        return number
    kind, first, *operands = formula
    return first if kind == "constant" else first(*(_followed(each, number) for each in operands))


def _operand(value: Value, number: object) -> object:
    """An operand in Python; a symbolic one is specialized, and so relied on."""
    if isinstance(value, ScalarValue):
        return value._computed(number)
    return value.specialized() if isinstance(value, SymbolicNumber) else value.constant()
