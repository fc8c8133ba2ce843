"""Functions that ``torch.func`` makes of functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch import fx

from capture.reasons import Kind
from capture.values.base import Tracer, Value


def call_transform(transform: TransformValue, /, *args: object, **kwargs: object) -> object:
    """The call of a function that `torch.func` made; the rules give it a symbolic meaning."""
    raise NotImplementedError


class TransformValue(Value):
    """``torch.func.<name>(function, **options)``."""

    def __init__(self, name: str, function: Value, options: Mapping[str, Any]) -> None:
        self.name = name
        self.function = function
        self.options = dict(options)

    def python_type(self) -> type:
        return FunctionType

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return ctx.call_builtin(call_transform, [self, *args], kwargs)

    def attribute(self, ctx: Tracer, name: str) -> Value:
        return ctx.stop(Kind.FUNCTION_TRANSFORM, f"`{name}` of what `torch.func.{self.name}` made is read")

    def parts(self) -> Iterator[Value]:
        yield self.function

    def describe(self) -> str:
        return f"what `torch.func.{self.name}` made of {self.function.describe()}"


class PullbackValue(TransformValue):
    """The function that ``vjp`` returns beside the value.

    What it computes of the function is recorded where ``vjp`` is called, as nothing that happens later may change it;
    for the same reason nothing rebuilds it.
    """

    def __init__(
        self, function: Value, primals: Sequence[Value], body: Body, surroundings: object, written: int
    ) -> None:
        super().__init__("vjp", function, {})
        self.primals = tuple(primals)
        self.body = body
        self.surroundings = surroundings
        self.written = written

    def parts(self) -> Iterator[Value]:
        yield self.function
        yield from self.primals


@dataclass(frozen=True, slots=True)
class Body:
    """The graph of a transformed function: of the tensors among its arguments, and then of what is ``given``."""

    module: fx.GraphModule
    given: tuple[Value, ...]
    arranged: object  # what it returns, with numbers for its tensors


class ModuleOperand(Value):
    """A part of the graph as an operand of one of its nodes."""

    def __init__(self, node: fx.Node, module: fx.GraphModule) -> None:
        self.node = node
        self.module = module

    def python_type(self) -> type:
        return fx.GraphModule
