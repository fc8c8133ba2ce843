"""Autograd in the user's code: ``autograd.grad``, ``backward``, and functions with a backward of their own.

``backward()`` is ``autograd.grad`` over the leaves that the loss depends on, one node of the graph, followed by what
autograd does with a leaf's gradient: set it, or add to it in place.  That needs to know all leaves, so a loss whose
history began outside of the graph is left to CPython.

A ``torch.autograd.Function`` is one node too.  Its forward is evaluated once only to see that it does nothing but
compute; when the graph runs, torch runs the function itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from capture.builtin_rules.registry import rule
from capture.function_context import FunctionContext
from capture.kernels.traces import apply_traced
from capture.leaves import lead_to
from capture.sources import AttrSource
from capture.values.base import Tracer, Value
from capture.values.constant import FALSE, NONE, TRUE, boolean
from capture.values.function import ClassValue
from capture.values.sequence import ListValue, SequenceValue, TupleValue
from capture.values.tensor import TensorValue

_NO_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


# -- gradients ---------------------------------------------------------------------------------------------------


@rule(torch.autograd.grad, kinds=(None, None))
def gradients(ctx: Tracer, outputs: Value, inputs: Value, *rest: Value, **options: Value) -> Value:
    for output in _tensors(outputs):
        for origin in _origins(ctx, output):
            if not origin.obj.is_leaf and origin not in _tensors(inputs):
                ctx.stop("autograd", f"{origin.describe()} has a history outside of the graph")
    found = ctx.record(torch.autograd.grad, [outputs, inputs, *rest], options)
    retained = options.get("retain_graph", rest[1] if len(rest) > 1 else NONE)
    created = options.get("create_graph", rest[2] if len(rest) > 2 else FALSE)
    if not (created if retained is NONE else retained).truth(ctx):
        for output in _tensors(outputs):
            _spend(ctx, output)
    return found


def _spend(ctx: Tracer, output: TensorValue) -> None:
    history = _history(output)
    for value in ctx.tensors.values():
        if value.node in history and value.source is None:
            value.spent = True


def _tensors(value: Value) -> list[TensorValue]:
    if isinstance(value, TensorValue):
        return [value]
    return [item for item in value.parts() if isinstance(item, TensorValue)] if isinstance(value, SequenceValue) else []


def _origins(ctx: Tracer, output: TensorValue) -> list[TensorValue]:
    """The graph's inputs with gradients that a tensor was computed from; the program's own new leaves among them."""
    history = _history(output)
    return [
        value
        for value in ctx.tensors.values()
        if value.node in history and value.source is not None and value.fake.requires_grad
    ]


def _history(output: TensorValue) -> set[fx.Node]:
    seen, waiting = {output.node}, [output.node]
    while waiting:
        for step in waiting.pop().all_input_nodes:
            if step not in seen:
                seen.add(step)
                waiting.append(step)
    return seen


@rule(torch.Tensor.backward, kinds=(TensorValue,))
def backward(
    ctx: Tracer,
    loss: TensorValue,
    gradient: Value = NONE,
    retain_graph: Value = NONE,
    create_graph: Value = FALSE,
    inputs: Value = NONE,
) -> Value:
    if inputs is NONE and lead_to(ctx.leaves, loss.fake):
        ctx.keep_leaves_outside()
    leaves = _leaves(ctx, loss) if inputs is NONE else _tensors(inputs)
    if not leaves:
        ctx.stop("autograd", f"`backward()` of {loss.describe()} reaches no leaf in the graph")
    for leaf in leaves:
        _rely_on_a_plain_leaf(ctx, leaf)
    options = {"grad_outputs": gradient, "retain_graph": retain_graph, "create_graph": create_graph}
    found = gradients(ctx, loss, ListValue(leaves), **options, allow_unused=TRUE)
    for leaf, grad in zip(leaves, found.elements(ctx), strict=True):
        if isinstance(grad, TensorValue):
            _accumulate(ctx, leaf, grad, keep_history=create_graph.truth(ctx))
    return NONE


@rule(torch.autograd.backward, kinds=(TensorValue,))
def backward_of_one(ctx: Tracer, loss: TensorValue, gradient: Value = NONE, *rest: Value, **options: Value) -> Value:
    return backward(ctx, loss, gradient, *rest, **options)


def _leaves(ctx: Tracer, loss: TensorValue) -> list[TensorValue]:
    leaves = _origins(ctx, loss)
    for leaf in leaves:
        if not leaf.obj.is_leaf:
            ctx.stop("autograd", f"{leaf.describe()} has a history outside of the graph")
    return leaves


def _rely_on_a_plain_leaf(ctx: Tracer, leaf: TensorValue) -> None:
    if leaf.source is None or any(getattr(leaf.obj, name, None) for name in _NO_HOOKS):
        ctx.stop("autograd", f"`backward()` reaches {leaf.describe()}, which has hooks or was made in the graph")
    assert leaf.source is not None
    ctx.guard(AttrSource(leaf.source, "is_leaf"), "true")
    for name in _NO_HOOKS:
        if hasattr(leaf.obj, name):
            ctx.guard(AttrSource(leaf.source, name), "false")


def _accumulate(ctx: Tracer, leaf: TensorValue, grad: TensorValue, *, keep_history: bool) -> None:
    held = leaf.gradient(ctx)
    if not isinstance(held, TensorValue):
        leaf.set_attribute(ctx, "grad", _own(ctx, leaf, grad))
    elif keep_history:
        leaf.set_attribute(ctx, "grad", ctx.record(torch.add, [held, grad], {}))
    else:
        ctx.record("add_", [held, grad], {}, method=True)


def _own(ctx: Tracer, leaf: TensorValue, grad: TensorValue) -> Value:
    """A gradient that belongs to its leaf alone, laid out as the leaf is."""
    if grad.fake.stride() == leaf.fake.stride() and not _is_shared(ctx, grad):
        return grad
    layout = [TupleValue([ctx.literal(n) for n in numbers]) for numbers in (leaf.fake.shape, leaf.fake.stride())]
    fresh = ctx.record("new_empty_strided", [grad, *layout], {}, method=True)
    return ctx.record("copy_", [fresh, grad], {}, method=True)


def _is_shared(ctx: Tracer, grad: TensorValue) -> bool:
    memory = _memory(grad)
    return any(value is not grad and _memory(value) == memory for value in ctx.tensors.values())


def _memory(value: TensorValue) -> int:
    return int(value.fake.untyped_storage()._cdata)


# -- functions with a backward of their own ----------------------------------------------------------------------


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
