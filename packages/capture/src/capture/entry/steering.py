"""Functions that captured code calls, or is marked with, to steer capture.  Outside of capture they do nothing."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import torch

from capture import state
from capture._engine import Outside, Region
from capture.break_errors import switch
from capture.entry.stance import set_stance
from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.foreign_marks import MARK, WHY
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.constant import FALSE, NONE, TRUE
from capture.values.function import BoundMethod


class error_on_graph_break(contextlib.ContextDecorator):  # noqa: N801 - called like a function
    """A context in which a graph break is an error, whatever ``optimize`` was asked for; or a record again."""

    def __init__(self, error_on_graph_break: bool) -> None:
        self.error = error_on_graph_break
        self.before = False

    def _recreate_cm(self) -> error_on_graph_break:
        return error_on_graph_break(self.error)  # calls of one function may be under way at the same time

    def __enter__(self) -> None:
        self.before = switch(self, self.error)

    def __exit__(self, *_: object) -> None:
        switch(self, self.before)


@rule(switch)
def switch_while_captured(ctx: World, context: Value, error: Value) -> Value:
    if context.source is not None:  # entered outside, where CPython has to leave it
        explanation = "an `error_on_graph_break` that was made outside is entered or left"
        ctx.stop(Kind.ERROR_ON_GRAPH_BREAK, explanation, "make it where it is used")
    before, ctx.effects.breaks_are_errors = ctx.effects.breaks_are_errors, bool(error.constant())
    return TRUE if before else FALSE


P = ParamSpec("P")
R = TypeVar("R")


def graph_break(message: str = "") -> None:
    """Breaks the graph here."""


def torchs_graph_break(msg: str = "") -> None:
    """Breaks the graph where the program itself asks for it, for whoever serves programs written for torch's compiler.

    Libraries ask to work around that compiler.
    """


def is_compiling() -> bool:
    """True if the code that asks is being captured."""
    return False


def allow_in_graph(function: Callable[P, R]) -> Callable[P, R]:
    """Records calls of ``function`` as one node of the graph.

    It must compute tensors from tensors and do nothing else.
    """
    return _marked(state.PROCESS.allowed, function, "allow_in_graph")


def disallow_in_graph(function: Callable[P, R]) -> Callable[P, R]:
    """Leaves calls of ``function`` to CPython: the graph ends before each."""
    return _marked(state.PROCESS.disallowed, function, "disallow_in_graph")


def assume_constant_result(function: Callable[P, R]) -> Callable[P, R]:
    """Calls ``function`` once, at capture, and takes its result for a constant.

    That it never changes is for the program to know: nothing checks it.
    """
    return _marked(state.PROCESS.assumed, function, "assume_constant_result")


def _marked(table: set[int], function: Callable[P, R], name: str) -> Callable[P, R]:
    if not callable(function):
        raise TypeError(f"{name} takes a function, not {type(function).__name__}")
    table.add(id(function))
    state.PROCESS.kept.append(function)
    return function


@rule(graph_break)
def stop_here(ctx: Tracer, message: Value | None = None) -> Value:
    said = f": {message.constant()}" if message is not None else ""
    ctx.stop(Kind.GRAPH_BREAK, f"graph_break() is called{said}", "remove the call")


@rule(torchs_graph_break)
def stop_where_the_program_asks(ctx: World, msg: Value | None = None) -> Value:
    return NONE if ctx.in_library() else stop_here(ctx, msg)


@rule(set_stance)
def leave_stance(ctx: Tracer, name: Value) -> Value:
    hint = "take it outside of the compiled function"
    return ctx.stop(Kind.STANCE, "a stance is taken, which concerns the whole process", hint)


@rule(is_compiling)
def compiling(ctx: Tracer) -> Value:
    return TRUE


@rule(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def compiling_by_torch(ctx: Tracer) -> Value:
    """The answer to who asks whether torch's compiler is at work.

    Programs ask it to leave out what cannot be captured.  Installed code asks it to get around what torch's compiler
    cannot do; here it goes the way that it goes in eager, which is what it is compared with.
    """
    return FALSE if ctx.in_library() else TRUE


def disable(function: Any, reason: str | None = None) -> Any:
    """Runs ``function``, and what it calls, as if there were no capture.  ``reason``: why, for whoever reads it."""
    outside = named_after(Outside(function), function)
    vars(outside)[WHY] = reason
    return outside


def named_after(wrapper: Any, target: Any) -> Any:
    """``wrapper`` with the names and docs of what it calls."""
    called = target.__call__ if isinstance(target, torch.nn.Module) else target
    # A region asks what it calls for other attributes; functions that step coroutines have copies.
    updated = () if isinstance(wrapper, (Region, Outside)) else functools.WRAPPER_UPDATES
    return functools.update_wrapper(wrapper, called, updated=updated)


def disable_alone(function: FunctionType, reason: str | None = None) -> FunctionType:
    """Leaves ``function`` to CPython, and captures what it calls."""
    vars(function).update({MARK: True, WHY: reason})
    return function


@rule(disable, disable_alone)
def disabled_in_passing(ctx: Tracer, function: Value, reason: Value = NONE) -> Value:
    """Breaks the graph where a function is disabled in captured code: it may be another one in every call."""
    why, name = reason.constant(), function.describe()
    if isinstance(function, BoundMethod) and issubclass(function.receiver.python_type(), torch.nn.Module):
        name = f"`{function.receiver.python_type().__qualname__}`"
    return ctx.stop(Kind.DISABLED, f"{name} is disabled{f': {why}' if why else ''}", "remove `disable` to capture it")
