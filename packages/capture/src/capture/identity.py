"""Which objects of the program were met, and by which paths.

Two paths may lead to one object where later calls bring two, or to two where later calls bring one.  The recorded graph
holds for what was found, so what of it the graph depends on is relied on here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from capture.sources import ArgSource, CellSource, ConstSource, Inputs, Source, comes_with_the_call
from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue
from capture.values.function import ClassValue
from capture.values.tensor import TensorValue


class MetObjects:
    """The real objects that have a value, each kept alive so that its address stays its own."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._values: dict[int, Value] = {}
        self._alive: list[Any] = []

    def find(self, obj: Any) -> Value | None:
        return self._values.get(id(obj))

    def remember(self, obj: Any, value: Value) -> None:
        self._values[id(obj)] = value
        self._alive.append(obj)

    def forget(self) -> None:
        self._values.clear()
        self._alive.clear()
        del self._inputs

    def rely_on_one_object(self, ctx: Tracer, known: Value, obj: Any, source: Source) -> None:
        """A second path to an object: the graph relies on both leading to the same one."""
        first = known.source
        if first is None or first == source or isinstance(first, ConstSource):
            if isinstance(first, ConstSource) and not isinstance(next(source.chain()), ConstSource):
                ctx.guard(source, "is", obj)
            return
        if self._comes_and_goes(first, obj) and comes_with_the_call(source):
            ctx.guard(
                None, "relation", _same_object(first, source), text=f"{source.expression()} is {first.expression()}"
            )
            return
        for path in (first, source):
            if not isinstance(next(path.chain()), (ConstSource, CellSource)):
                ctx.guard(path, "is", obj)

    def rely_on_others_than(self, ctx: Tracer, value: Value) -> None:
        """No other object of its type that was met is this one.  Classes are each relied on as themselves."""
        if isinstance(value, ClassValue):
            return
        for other in self._values.values():
            if other is not value and other.source is not None and type(other) is type(value):
                rely_on_distinct(ctx, value, other)

    def _comes_and_goes(self, source: Source, obj: Any) -> bool:
        """Whether later calls may well bring another object on this path: arguments do, what modules hold does not."""
        root = next(source.chain())
        if not isinstance(root, ArgSource) or issubclass(type(obj), (torch.nn.Module, torch.nn.Parameter, type)):
            return False
        return root is source or not isinstance(self._inputs.args[root.index], torch.nn.Module)


_MOST_COMPARED = 8


class SearchedKeys:
    """Objects that are looked for by their identity, as keys of dicts and items of sets.

    Among keys made here it matters which are one object; among those of a dict outside, which objects they are.
    """

    def __init__(self) -> None:
        self._searched: dict[int, Value] = {}
        self._by_object = False

    def add(self, ctx: Tracer, value: Value) -> None:
        if id(value) in self._searched:
            return
        if len(self._searched) == _MOST_COMPARED:
            self.rely_on_objects(ctx)
        if self._by_object:
            _rely_on_object(ctx, value)
        else:
            for other in self._searched.values():
                _rely_on_another(ctx, value, other)
        self._searched[id(value)] = value

    def rely_on_objects(self, ctx: Tracer) -> None:
        if not self._by_object:
            self._by_object = True
            for value in self._searched.values():
                _rely_on_object(ctx, value)


def _rely_on_object(ctx: Tracer, value: Value) -> None:
    found = value.obj if isinstance(value, TensorValue) else value.identity()
    if value.source is not None and found is not value:
        ctx.guard(value.source, "is", found)


def _rely_on_another(ctx: Tracer, left: Value, right: Value) -> None:
    first, second = left.source, right.source
    if first is None or second is None or left.python_type() is not right.python_type():
        return
    if not (isinstance(first, ConstSource) and isinstance(second, ConstSource)):
        text = f"{first.expression()} is not {second.expression()}"
        ctx.guard(None, "relation", _distinct_paths(first, second), text=text)


def rely_on_distinct(ctx: Tracer, left: Value, right: Value) -> None:
    """Rely on two paths, of which one is from the arguments, leading to two objects."""
    first, second = left.source, right.source
    if first is None or second is None or not (comes_with_the_call(first) or comes_with_the_call(second)):
        return
    if isinstance(left, ConstantValue) or left.python_type() is not right.python_type():
        return
    text = f"{first.expression()} is not {second.expression()}"
    ctx.guard(None, "relation", _distinct_paths(first, second), text=text)


def _distinct_paths(first: Source, second: Source) -> Callable[..., bool]:
    def distinct(function: FunctionType, *args: Any) -> bool:
        inputs = Inputs(function, args)
        return first.read(inputs) is not second.read(inputs)

    return distinct


def _same_object(first: Source, second: Source) -> Callable[..., bool]:
    def same(function: FunctionType, *args: Any) -> bool:
        inputs = Inputs(function, args)
        return first.read(inputs) is second.read(inputs)

    return same
