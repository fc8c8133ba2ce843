"""Triton kernels of the user's: ``kernel[grid]`` and its call, which becomes one operator of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.user_object import UserObject


class KernelValue(UserObject):
    """A kernel, tuned or not, known by identity."""

    def special(self, ctx: Tracer, name: str) -> Value | None:
        return GridValue(self) if name == "__getitem__" else super().special(ctx, name)


class GridValue(Value):
    """The method that ``kernel[...]`` calls."""

    def __init__(self, kernel: KernelValue) -> None:
        self.kernel = kernel

    def python_type(self) -> type:
        return type(UserObject.special)

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        (grid,) = args
        return LaunchValue(self.kernel, grid)


class LaunchValue(Value):
    """``kernel[grid]``, not called yet."""

    def __init__(self, kernel: KernelValue, grid: Value) -> None:
        self.kernel = kernel
        self.grid = grid

    def python_type(self) -> type:
        return type(UserObject.special)

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return ctx.call_builtin(start, [self.kernel, self.grid, *args], kwargs)

    def parts(self) -> Iterator[Value]:
        yield self.kernel
        yield self.grid

    def describe(self) -> str:
        return f"{self.kernel.describe()}, with its grid"


class StartedValue(Value):
    """The compiled kernel that Triton gives back for a start, which exists only once the graph runs."""

    def python_type(self) -> type:
        return object

    def attribute(self, ctx: Tracer, name: str) -> Value:
        return self._asked(ctx)

    def truth(self, ctx: Tracer) -> bool:
        return self._asked(ctx)

    def _asked(self, ctx: Tracer) -> NoReturn:
        """Breaks: there is nothing yet that could be looked at."""
        ctx.stop(Kind.TRITON, "what the start of a Triton kernel gives back is looked at")


class HostFunction(UserObject):
    """A function of Triton's that kernels and programs call alike, ``triton.cdiv``: its Python is what programs get."""

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return ctx.call(ctx.literal(self.obj.fn), args, kwargs)


def start(kernel: Any, grid: object, /, *args: Any, **kwargs: object) -> object:
    """The start of a ``LaunchValue``; the rules give it a symbolic meaning."""
    return kernel[grid](*args, **kwargs)
