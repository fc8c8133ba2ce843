"""Gradients asked for in the user's code: ``autograd.grad`` and ``backward``.

``backward()`` is ``autograd.grad`` over the leaves behind the loss, one node of the graph, followed by what autograd
does with a leaf's gradient: set it, or add to it in place.  Which leaves those are is asked of autograd's own history
of the loss on fake tensors; where that leaves the graph, CPython goes backward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from capture.errors import SkipFrame
from capture.evaluator.builtin_rules.notices import warn_as_torch_does
from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource
from capture.reasons import Kind, Reason
from capture.recording.graph import memory_of
from capture.recording.regions import is_in_region
from capture.torch_versions import set_grad_enabled
from capture.values.autograd_leaves import History, has_known_history, is_leaf, keep
from capture.values.base import Tracer, Value, realize
from capture.values.constant import FALSE, NONE, TRUE, is_none
from capture.values.identity import rely_on_none_of
from capture.values.sequence import ListValue, SequenceValue
from capture.values.tensor import SET_DATA, TensorValue

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


@rule(torch.autograd.grad, kinds=(None, None))
def gradients(ctx: World, outputs: Value, inputs: Value, *rest: Value, **options: Value) -> Value:
    _insist_on_no_reentrant_checkpoint(ctx, _tensors(ctx, outputs))
    return _gradients(ctx, outputs, inputs, *rest, **options)


def _insist_on_no_reentrant_checkpoint(ctx: World, outputs: Sequence[TensorValue]) -> None:
    """Breaks the graph at a reentrant checkpoint that gradients of chosen inputs would pass.

    Of some inputs' gradients such a checkpoint knows nothing: torch says so where CPython calls it.
    """
    if ctx.graph.reentrant:
        for step in History([output.fake for output in outputs]).steps:
            if step in ctx.graph.reentrant:
                instruction, number, location = ctx.graph.reentrant[step]
                reason = Reason(
                    Kind.CHECKPOINT, "torch gives no gradients of chosen tensors past a reentrant checkpoint"
                )
                ctx.stop_at((instruction, number), reason, location)


def _gradients(ctx: World, outputs: Value, inputs: Value, *rest: Value, **options: Value) -> Value:
    """Records ``autograd.grad``, where the whole history that it goes through is the graph's own."""
    # Gradients may be asked for of inputs of the graph that have a history outside (``inner``): the search stops there.
    wanted = _tensors(ctx, inputs)
    for value in wanted:
        _rely_on_no_hooks(ctx, value)
    inner = [value.fake.grad_fn for value in wanted if value.source is not None and not _is_leaf(ctx, value)]
    history = History([output.fake for output in _tensors(ctx, outputs)], until=inner)
    _rely_on_origins(ctx, history, wanted)
    # It passes a tensor that came with a history, whose further way this graph does not know.
    if any(step in history.steps and step not in inner for _, step in ctx.graph.arrived.values()):
        ctx.stop(Kind.AUTOGRAD, _outside(ctx, history))  # with the next call it may lead elsewhere
    if inner and any(value.source is not None and value.fake.grad_fn not in inner for value in wanted):
        ctx.stop(Kind.AUTOGRAD, "gradients are asked for of a leaf and of a tensor that may come from it")
    if len(set(inner)) > 1:  # what one was computed from leads on to the other, and fake tensors do not know
        ctx.stop(Kind.AUTOGRAD, "gradients are asked for of several tensors of which one may come from another")
    found = ctx.record(torch.autograd.grad, [outputs, inputs, *rest], options)
    # Steps that a second backward would find freed: results of theirs leave the graph without a history.
    ctx.graph.used_up.update(history.used_up(ctx.graph.readers))
    return found


def _rely_on_origins(ctx: World, history: History, wanted: Sequence[TensorValue]) -> None:
    """Relies on the history beginning in later calls where it does now, and at as many objects.

    Every origin has to be an input of the graph, or a leaf that was made in it.  What is wanted is none of the others:
    its gradient would be theirs as well.
    """
    made = {id(leaf) for leaf in ctx.leaves}
    for origin in history.origins:
        if origin in ctx.tensors:
            _is_leaf(ctx, ctx.tensors[origin])  # it may come with a history that leads to what is wanted
        elif origin not in made:
            ctx.stop(Kind.AUTOGRAD, _outside(ctx, history))
    origins = [ctx.tensors[origin] for origin in history.origins if origin in ctx.tensors]
    rely_on_none_of(ctx, wanted, [origin for origin in origins if origin not in wanted])


@rule(torch.Tensor.backward, kinds=(TensorValue,))
def backward(
    ctx: World,
    loss: TensorValue,
    gradient: Value = NONE,
    retain_graph: Value = NONE,
    create_graph: Value = FALSE,
    inputs: Value = NONE,
) -> Value:
    """``loss.backward()``, by the rule for several losses."""
    return backward_of_several(ctx, loss, gradient, retain_graph, create_graph, inputs=inputs)


@rule(torch.autograd.backward, kinds=(None,))
def backward_of_several(
    ctx: World,
    tensors: Value,
    grad_tensors: Value = NONE,
    retain_graph: Value = NONE,
    create_graph: Value = FALSE,
    grad_variables: Value = NONE,
    inputs: Value = NONE,
) -> Value:
    """Gradients of all leaves behind the losses, in one node, and then what autograd does with each."""
    losses = _tensors(ctx, tensors)
    if not losses or not is_none(grad_variables):
        ctx.stop(Kind.AUTOGRAD, "`backward()` is called without tensors, or with `grad_variables`")
    # Without ``inputs`` gradients go to all leaves, which a reentrant checkpoint can do.
    if not is_none(inputs):
        _insist_on_no_reentrant_checkpoint(ctx, losses)
    # Each once, in the order in which they were met.
    leaves = _leaves(ctx, losses) if is_none(inputs) else list(dict.fromkeys(_tensors(ctx, inputs)))
    if not leaves:
        ctx.stop(Kind.AUTOGRAD, f"`backward()` of {losses[0].describe()} reaches no leaf in the graph")
    for leaf in leaves:
        _rely_on_a_plain_leaf(ctx, leaf)
    # Before the gradients are made: what any tensor lies in by now.
    taken = {memory_of(value.fake) for value in ctx.tensors.values()}
    options = {"grad_outputs": grad_tensors, "retain_graph": retain_graph, "create_graph": create_graph}
    # ``allow_unused``: a leaf that nothing reaches keeps its ``grad``.
    found = _gradients(ctx, tensors, ListValue(leaves), **options, allow_unused=TRUE)
    if is_none(inputs):
        ctx.graph.mark_last(torch.autograd.grad, "all_leaves")
    _accumulate(ctx, leaves, found.elements(ctx), taken, create_graph=create_graph.truth(ctx))
    if create_graph.truth(ctx):
        warn_as_torch_does(ctx, "create_graph")
    return NONE


def _tensors(ctx: World, value: Value) -> list[TensorValue]:
    """The tensors in an argument, of which torch knows the histories."""
    if isinstance(value, TensorValue):
        _insist_on_known_histories(ctx, [value])
        return [value]
    items = [realize(ctx, item) for item in value.elements(ctx)] if isinstance(value, SequenceValue) else []
    tensors = [item for item in items if isinstance(item, TensorValue)]
    if len(tensors) < len(items):
        ctx.stop(Kind.AUTOGRAD, "gradients are asked for of something that is no tensor")
    _insist_on_known_histories(ctx, tensors)
    return tensors


def _insist_on_known_histories(ctx: World, tensors: Iterable[TensorValue]) -> None:
    """Breaks the graph where autograd would look at each operator, or knows nothing of a tensor."""
    ctx.state_read["torch.is_anomaly_enabled"] = torch.is_anomaly_enabled
    if torch.is_anomaly_enabled():
        ctx.stop(Kind.AUTOGRAD, "gradients are taken under anomaly detection, which looks at those of each operator")
    for each in tensors:
        if not has_known_history(each.fake):
            ctx.stop(
                Kind.AUTOGRAD, f"gradients are asked for of {each.describe()}, of whose history torch tells nothing"
            )


# -- leaves ------------------------------------------------------------------------------------------------------


def _leaves(ctx: World, losses: Sequence[TensorValue]) -> list[TensorValue]:
    """The leaves that the history of the losses leads to; each has to be a tensor of this graph."""
    history = History([loss.fake for loss in losses])
    leaves = []
    for origin in history.origins:
        # By the identity of the fake.
        leaf = ctx.tensors.get(origin)
        if leaf is None:
            ctx.stop(Kind.AUTOGRAD, _outside(ctx, history))
        leaves.append(leaf)
    return leaves


def _outside(ctx: World, history: History) -> str:
    """Words for a history that begins before the graph."""
    arrived = (value for value, step in ctx.graph.arrived.values() if step in history.steps)
    named = next((value.describe() for value in arrived), "a tensor")
    return f"{named} has a history outside of the graph"


def _is_leaf(ctx: Tracer, value: TensorValue) -> bool:
    return value.attribute(ctx, "is_leaf").truth(ctx)


def _rely_on_a_plain_leaf(ctx: World, leaf: TensorValue) -> None:
    """Relies on a leaf from outside being a leaf in later calls, and on nobody watching its gradient.

    Of one that was made in the graph nothing has to be relied on: whoever could ask for its gradient later is told by
    what leaves the graph, and then CPython makes it.  In a checkpoint it is made twice.
    """
    if any(made is leaf.fake for made in ctx.leaves):
        if not is_leaf(leaf.fake) or is_in_region(leaf.node):
            ctx.keep_leaves_outside()
        return
    if leaf.source is None or not (leaf.fake.is_leaf and leaf.obj.is_leaf):
        ctx.stop(Kind.AUTOGRAD, f"`backward()` reaches {leaf.describe()}, which is no leaf or was made in the graph")
    assert leaf.source is not None
    ctx.guard(AttrSource(leaf.source, "is_leaf"), GuardKind.TRUE)
    _rely_on_no_hooks(ctx, leaf)


def _rely_on_no_hooks(ctx: Tracer, value: TensorValue) -> None:
    """Relies on nothing being called when a gradient arrives."""
    if value.source is None:
        return
    if any(getattr(value.obj, name, None) for name in _HOOKS) or (value.obj.retains_grad and not value.obj.is_leaf):
        ctx.stop(Kind.AUTOGRAD, f"gradients arrive at {value.describe()}, which has hooks")
    # None there now, and none in later calls.
    for name in _HOOKS:
        if hasattr(value.obj, name):
            ctx.guard(AttrSource(value.source, name), GuardKind.FALSE)
    if not value.obj.is_leaf:
        ctx.guard(AttrSource(value.source, "retains_grad"), GuardKind.FALSE)


# -- what becomes of gradients -----------------------------------------------------------------------------------


def _accumulate(
    ctx: World, leaves: Sequence[TensorValue], found: Sequence[Value], taken: set[Any], *, create_graph: bool
) -> None:
    """Does what autograd does with a leaf's gradient: sets it, or adds to the one that is there."""
    grads = {leaf: grad for leaf, grad in zip(leaves, found, strict=True) if isinstance(grad, TensorValue)}
    # All are read before the first is written.
    held = {leaf: leaf.gradient(ctx) for leaf in grads}
    for leaf, grad in grads.items():
        if grad.fake.layout is not torch.strided:
            ctx.stop(Kind.AUTOGRAD, f"the gradient of {leaf.describe()} is not an ordinary strided tensor")
    with _grad_mode(ctx, create_graph, [*grads.values(), *held.values()]):
        for leaf, grad in grads.items():
            if not isinstance(held[leaf], TensorValue):
                _give(ctx, leaf, _own(ctx, leaf, grad, taken, create_graph=create_graph))
            # Out of place: the sum has a history, which a write in place would change under others.
            elif create_graph:
                _give(ctx, leaf, ctx.record(torch.add, [held[leaf], grad], {}))
            else:
                ctx.record("add_", [held[leaf], grad], {}, method=True)


def _give(ctx: World, leaf: TensorValue, grad: Value) -> None:
    """Makes it the gradient of a leaf: an effect, unless nobody but this frame has the leaf."""
    if leaf.source is not None:
        leaf.set_attribute(ctx, "grad", grad)
    elif isinstance(grad, TensorValue):
        ctx.changed(leaf)
        leaf.written["grad"] = grad
        grad.is_a_gradient = True


@contextlib.contextmanager
def _grad_mode(ctx: World, enabled: bool, operands: Iterable[Value]) -> Iterator[None]:
    """A context in which gradients are added up with a history only where a graph of them is wanted."""
    before = torch.is_grad_enabled()
    matters = any(isinstance(value, TensorValue) and value.fake.requires_grad for value in operands)
    if before is enabled or not matters:
        yield
        return
    ctx.graph.switch(set_grad_enabled, enabled)
    try:
        yield
    finally:
        ctx.graph.switch(set_grad_enabled, before)


def _own(ctx: World, leaf: TensorValue, grad: TensorValue, taken: set[object], *, create_graph: bool) -> Value:
    """A gradient that belongs to its leaf alone, laid out as autograd lays it, and that is no view.

    ``taken`` is memory that others have.
    """
    with torch.no_grad():
        # Autograd lays a gradient out as the leaf where the leaf is dense, and contiguously elsewhere.
        dense = torch.empty_like(leaf.fake)
    if dense.stride() != leaf.fake.stride():  # the leaf does not fill its memory: its gradient is contiguous
        dense = dense.contiguous()
    memory = memory_of(grad.fake)
    strides = zip(grad.fake.shape, grad.fake.stride(), dense.stride(), strict=True)
    unsure = ctx.graph.shape_env is not None  # of a size of 1 fakes with symbols do not know the stride
    other_layout = any(mine != other if size != 1 else unsure or mine == 0 for size, mine, other in strides)
    # A copy of its own; otherwise the gradient's own memory is handed over, to one leaf only.
    if create_graph or memory in taken or other_layout:
        own = dense.stride() == leaf.fake.stride()
        layout = ctx.literal(torch.preserve_format if own else torch.contiguous_format)
        fresh = ctx.record(torch.empty_like, [leaf], {"memory_format": layout})
        return ctx.record("copy_", [fresh, grad], {}, method=True)
    taken.add(memory)
    return ctx.record("detach", [grad], {}, method=True)


@rule(SET_DATA, kinds=(TensorValue, None))
def exchange_data(ctx: World, tensor: TensorValue, data: Value) -> Value:
    """Leaves ``x.data = y`` to CPython, by a break or with the whole frame.

    Backward would find the old data where a view of the tensor was saved, and the new where it was itself: compiled
    code keeps neither as autograd does.
    """
    memory = memory_of(tensor.fake)
    results = [value.fake for value in ctx.tensors.values()]
    if keep(results, lambda saved: saved.layout is torch.strided and memory_of(saved) == memory):
        explanation = f"{tensor.describe()} gets other data, and autograd has kept what it had"
        raise SkipFrame(Reason(Kind.DATA_OF_A_TENSOR, explanation), location=ctx.location())
    return ctx.stop(Kind.DATA_OF_A_TENSOR, f"the data of {tensor.describe()} is assigned")
