"""The functions that are always left to CPython, each with a reason.

These are what programs disable, what torch's compiler runs, Triton kernels, event loops, schedules, transforms of
functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import NoReturn

from torch.optim import lr_scheduler

from capture import state
from capture._engine import Outside
from capture.evaluator.foreign_marks import is_disabled, runs_torchs_compiler, starts_triton_kernels, why_disabled
from capture.reasons import Kind
from capture.values.base import Tracer, Value, module_name

_INLINED_TRANSFORMS = ("torch._functorch.functional_call", "torch._functorch.utils")


def leave_to_python(ctx: Tracer, function: FunctionType) -> None:
    """Breaks the graph before the call of a function that is not to be captured."""
    if runs_torchs_compiler(function):
        hint = "what is around it is captured"
        ctx.stop(Kind.TORCHS_COMPILER, f"torch's own compiler runs in `{function.__qualname__}`", hint)
    if is_disabled(function):
        _stop_as_asked(ctx, function)
    if id(function) in state.PROCESS.disallowed:
        hint = "remove the marker to capture it"
        ctx.stop(Kind.DISABLED, f"`{function.__qualname__}` is marked to run outside of graphs", hint)
    if starts_triton_kernels(function):
        ctx.stop(Kind.TRITON, "a Triton kernel is started as it is", "what is before and behind it is compiled")
    leave_transform(ctx, function)
    leave_schedule(ctx, function)
    leave_event_loop(ctx, function)


def disabled(ctx: Tracer, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family of functions that `disable` made of others, which breaks the graph."""
    return _stop_as_asked(ctx, function) if isinstance(function, Outside) else None


def _stop_as_asked(ctx: Tracer, function: object) -> NoReturn:
    ctx.stop_for(why_disabled(function))


def leave_event_loop(ctx: Tracer, function: FunctionType) -> None:
    """Breaks the graph before functions of event loops.

    A loop steps coroutines when files and clocks are ready; and another one may be the current one next time.
    """
    package, _, module = module_name(function).partition(".")
    if package == "asyncio" and module not in _NO_LOOP and function.__name__ not in ("sleep", "__sleep0"):
        hint = "what the coroutines call is captured; give the coroutine function itself to `optimize` for more"
        ctx.stop(Kind.COROUTINE, f"`{function.__qualname__}` asks or runs an event loop", hint)


_NO_LOOP = frozenset({"coroutines", "locks", "mixins", "queues", "constants", "exceptions"})


def leave_transform(ctx: Tracer, function: FunctionType) -> None:
    """Breaks the graph before a transform of ``torch.func`` that has no rule.

    Under transforms tensors are not what they seem, so what they call runs as in eager.
    """
    module = function.__globals__.get("__name__", "")
    if module.startswith("torch._functorch.") and module not in _INLINED_TRANSFORMS:
        hint = "torch does all of it as in eager, and the rest of the function is captured"
        ctx.stop(Kind.FUNCTION_TRANSFORM, f"`{function.__qualname__}` of torch.func transforms a function", hint)


def leave_schedule(ctx: Tracer, function: FunctionType) -> None:
    """Breaks the graph before a step of a learning-rate schedule.

    The next rate is computed from a count of steps, in Python alone: every step would be a version.
    """
    if function.__module__ == lr_scheduler.__name__ and function.__name__ == "step":
        hint = "what is before and behind it is captured; call it outside of the function for one graph"
        ctx.stop(Kind.SCHEDULE, f"`{function.__qualname__}` computes the next learning rate", hint)
