"""The controls of compiling inside and outside of programs: markers in the code, and a stance for the process.

The names are those that users of ``torch.compiler`` know; capture does the work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any

import torch

import capture
from capture import (
    allow_in_graph,
    assume_constant_result,
    disallow_in_graph,
    graph_break,
    is_compiling,
    mark_dynamic,
    mark_static,
)
from compile_api.errors import BadOption
from compile_api.module import compiled_module
from compile_api.options import nearest
from cudagraphs import step_begin as begin_step

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "disallow_in_graph",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "set_stance",
    "step_begin",
]


def disable(fn: object = None, *, recursive: bool = True, reason: str | None = None) -> Any:
    """Runs a function or module in CPython although its caller is compiled; also as a decorator.

    recursive: so does everything that it calls; otherwise what it calls is compiled as usual.
    reason: why, for whoever reads the report.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, torch.nn.Module):
        # A module stays a module, with its parameters under their names: only its call is wrapped.
        again = functools.partial(disable, recursive=recursive, reason=reason)
        return compiled_module(fn, capture.disable(fn, reason), again)
    if not callable(fn):
        raise TypeError(f"disable takes a function or a module, not {type(fn).__name__}")
    if not recursive and isinstance(fn, FunctionType):
        return capture.disable_alone(fn, reason)
    return capture.disable(fn, reason)


class set_stance:  # noqa: N801 - called like a function, and named as its users know it
    """Decides for the whole process what happens to compiled functions from now on.

    "default" compiles what has not been compiled; "force_eager" runs everything in Python; "eager_on_recompile" uses
    what was compiled and runs the rest in Python; "fail_on_recompile" raises there, and says what would have been
    compiled and why.  As a context manager or decorator it holds for the block or the function.
    """

    def __init__(self, stance: str = "default") -> None:
        if stance not in capture.STANCES:
            stances = ", ".join(capture.STANCES)
            raise BadOption(f"there is no stance {stance!r}{nearest(stance, capture.STANCES)}; stances are {stances}")
        self.stance = stance
        self.before = capture.set_stance(stance)

    def __enter__(self) -> None:
        capture.set_stance(self.stance)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        capture.set_stance(self.before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Makes a decorator of it, which changes nothing until the function is called."""
        capture.set_stance(self.before)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return function(*args, **kwargs)

        return capture.disable(call)


def step_begin() -> None:
    """Says that a new training or inference step begins: recorded CUDA graphs may reuse the memory of outputs that
    the last one returned."""
    begin_step()
