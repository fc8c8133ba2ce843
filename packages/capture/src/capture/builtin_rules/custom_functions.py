"""Functions with a backward of their own, ``torch.autograd.Function``: one node each.

Forward is evaluated once only to see that it does nothing but compute; when the graph runs, torch runs the function
itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from capture.builtin_rules.registry import rule
from capture.function_context import FunctionContext
from capture.kernels.traces import apply_traced
from capture.values.base import Tracer, Value
from capture.values.constant import boolean
from capture.values.function import ClassValue
from capture.values.sequence import TupleValue
from capture.values.tensor import TensorValue

_APPLY = inspect.getattr_static(torch.autograd.Function, "apply")  # a class method of Python, or one built in


@rule(getattr(_APPLY, "__func__", _APPLY), kinds=(ClassValue,))
def apply_function(ctx: Tracer, cls: ClassValue, *args: Value) -> Value:
    for arg in args:
        if isinstance(arg, TensorValue):
            arg.shape(ctx)  # before the rehearsal, whose nodes are forgotten
    with ctx.rehearsal():
        _rehearse(ctx, cls, args)
    return ctx.record(_calling(cls.cls), args, {})


def _rehearse(ctx: Tracer, cls: ClassValue, args: tuple[Value, ...]) -> None:
    needs = [boolean(isinstance(arg, TensorValue) and arg.fake.requires_grad) for arg in args]
    context = ctx.call(ctx.literal(FunctionContext), [TupleValue(needs)])
    forward = cls.attribute(ctx, "forward")
    function: Any = cls.cls
    if function.setup_context is torch.autograd.Function.setup_context:
        ctx.call(forward, [context, *args])
        return
    output = ctx.call(forward, args)
    ctx.call(cls.attribute(ctx, "setup_context"), [context, TupleValue(args), output])


@functools.cache
def _calling(cls: Any) -> Callable[..., Any]:
    def apply(*args: Any) -> Any:
        return apply_traced(cls, args)

    apply.__name__ = apply.__qualname__ = f"apply_{cls.__name__}"
    return apply
