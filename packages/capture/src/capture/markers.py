"""Functions that captured code calls, or is marked with, to steer capture.  Outside of capture they do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

from capture._engine import Outside
from capture.builtin_rules.assumed import ASSUMED
from capture.builtin_rules.registry import fallback, rule
from capture.builtin_rules.torch_functions import ALLOWED, DISALLOWED
from capture.values.base import Tracer, Value
from capture.values.constant import FALSE, NONE, TRUE

P = ParamSpec("P")
R = TypeVar("R")


def graph_break(message: str = "") -> None:
    """Ends the graph here."""


def torchs_graph_break(msg: str = "") -> None:
    """For whoever serves programs written for torch's compiler: ends the graph where the program itself asks for it.
    Libraries ask to work around that compiler."""


def is_compiling() -> bool:
    """Whether the code that asks is being captured."""
    return False


def allow_in_graph(function: Callable[P, R]) -> Callable[P, R]:
    """Records calls of ``function`` as one node of the graph.  It must compute tensors from tensors and do nothing
    else.
    """
    return _marked(ALLOWED, function, "allow_in_graph")


def disallow_in_graph(function: Callable[P, R]) -> Callable[P, R]:
    """Leaves calls of ``function`` to CPython: the graph ends before each."""
    return _marked(DISALLOWED, function, "disallow_in_graph")


def assume_constant_result(function: Callable[P, R]) -> Callable[P, R]:
    """Calls ``function`` once, at capture, and takes its result for a constant.  That it never changes is for the
    program to know: nothing checks it.
    """
    return _marked(ASSUMED, function, "assume_constant_result")


def _marked(table: set[int], function: Callable[P, R], name: str) -> Callable[P, R]:
    if not callable(function):
        raise TypeError(f"{name} takes a function, not {type(function).__name__}")
    table.add(id(function))
    _KEPT.append(function)
    return function


# The tables hold identities, which are only unique among the living.
_KEPT: list[Any] = []


@rule(graph_break)
def stop_here(ctx: Tracer, message: Value | None = None) -> Value:
    said = f": {message.constant()}" if message is not None else ""
    ctx.stop("graph_break", f"graph_break() is called{said}", "remove the call")


@rule(torchs_graph_break)
def stop_where_the_program_asks(ctx: Tracer, msg: Value | None = None) -> Value:
    return NONE if ctx.in_library() else stop_here(ctx, msg)


@rule(is_compiling)
def compiling(ctx: Tracer) -> Value:
    return TRUE


@rule(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def compiling_by_torch(ctx: Tracer) -> Value:
    """Programs ask it to leave out what cannot be captured.  Libraries ask it to work around torch's compiler, and must
    not take another path because they are looked at: transformers would build masks that eager drops."""
    return FALSE if ctx.in_library() else TRUE


@fallback(order=5)
def disabled(ctx: Tracer, function: Any, args: Any, kwargs: Any) -> Value | None:
    if isinstance(function, Outside):
        name = getattr(function.callable, "__qualname__", "a function")
        ctx.stop("disabled", f"`{name}` is disabled", "remove `disable` to capture it")
    return None
