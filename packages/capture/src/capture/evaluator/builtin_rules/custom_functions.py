"""Functions with a backward of their own, ``torch.autograd.Function``: one node each.

Forward and backward are evaluated once only to see that they do nothing but compute, and what they rely on; when the
graph runs, torch runs the function itself.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from capture.errors import UserRaised
from capture.evaluator.autograd_context import FunctionContext
from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.operators.triton_kernels.traces import apply_traced
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize
from capture.values.classes import ClassValue
from capture.values.constant import NONE, boolean
from capture.values.sequence import SequenceValue, TupleValue
from capture.values.tensor import TensorValue

_BASE: Any = torch.autograd.Function

_APPLY = inspect.getattr_static(torch.autograd.Function, "apply")  # a class method of Python, or one built in


@rule(getattr(_APPLY, "__func__", _APPLY), kinds=(ClassValue,))
def apply_function(ctx: World, cls: ClassValue, *args: Value) -> Value:
    for arg in args:
        if isinstance(arg, TensorValue):
            arg.shape(ctx)  # before the rehearsal, whose nodes are forgotten
    followed = torch.is_grad_enabled()
    if followed and torch.is_inference_mode_enabled():  # where torch's operators record nothing, and these do
        ctx.stop(Kind.AUTOGRAD, f"`{cls.cls.__name__}.apply` is called in inference mode, with gradients enabled")
    with ctx.rehearsal(args):
        context, output = _rehearse(ctx, cls, args)
        if followed and any(isinstance(arg, TensorValue) and arg.fake.requires_grad for arg in args):
            _rehearse_backward(ctx, cls, context, output)
            if context.attribute(ctx, "_looks_back").truth(ctx):
                ctx.graph.readers.add(cls.cls)
    return ctx.record(_calling(cls.cls), args, {})


def _rehearse(ctx: Tracer, cls: ClassValue, args: tuple[Value, ...]) -> tuple[Value, Value]:
    """Evaluates forward, by either of torch's protocols; returns its context and what it gave."""
    needs = [boolean(isinstance(arg, TensorValue) and arg.fake.requires_grad) for arg in args]
    context = ctx.call(ctx.literal(FunctionContext), [TupleValue(needs)])
    forward = cls.attribute(ctx, "forward")
    function: Any = cls.cls
    if function.setup_context is _BASE.setup_context:
        return context, ctx.call(forward, [context, *args])
    output = ctx.call(forward, args)
    ctx.call(cls.attribute(ctx, "setup_context"), [context, TupleValue(args), output])
    return context, output


def _rehearse_backward(ctx: Tracer, cls: ClassValue, context: Value, output: Value) -> None:
    """Evaluates backward with all gradients, and with each alone where it is told which are missing."""
    function: Any = cls.cls
    name = "backward" if function.vjp is _BASE.vjp else "vjp"
    if getattr(function, name) is getattr(_BASE, name):
        return
    outputs = [realize(ctx, each) for each in output.elements(ctx)] if isinstance(output, SequenceValue) else [output]
    alone = context.attribute(ctx, "gives_zeros").truth(ctx) or len(outputs) == 1
    for present in [set(range(len(outputs))), *([] if alone else [{number} for number in range(len(outputs))])]:
        grads = [_gradient_like(ctx, each) if number in present else NONE for number, each in enumerate(outputs)]
        with contextlib.suppress(UserRaised):  # it cannot do with these; whoever goes backward will hear of it
            ctx.call(cls.attribute(ctx, name), [context, *grads])


def _gradient_like(ctx: Tracer, output: Value) -> Value:
    return ctx.record(torch.empty_like, [output], {}) if isinstance(output, TensorValue) else NONE


@functools.cache
def _calling(cls: Any) -> Callable[..., object]:
    """The function that a graph calls: FX wants a name, and a class method has that of the base."""

    def apply(*args: object) -> object:
        return apply_traced(cls, args)

    apply.__name__ = apply.__qualname__ = f"apply_{cls.__name__}"
    return apply
