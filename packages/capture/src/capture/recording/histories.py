"""Effects of an operation on the histories of tensors besides its result's: those that somebody watches, and views.

Torch gives every view of a tensor another history when the tensor is changed in place.  Fakes of inputs that share
memory are not views of each other, and torch can tell nothing of a view that was made without histories once its base
has one.  Such an operation is CPython's, unless nobody uses the view again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NoReturn

import torch

from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource
from capture.reasons import Kind
from capture.recording.graph import memory_of
from capture.recording.tensor_queries import answer_of
from capture.recording.world import Recording
from capture.torch_versions import is_view
from capture.values.autograd_leaves import asking_for_histories, has_known_history
from capture.values.tensor import TensorValue


def insist_on_known_histories(ctx: Recording, name: str, operands: Collection[torch.Tensor]) -> None:
    """Breaks the graph where an operation changed a history that fakes do not show as the real tensors would.

    To be called after the operation was run on fakes; what it changed lies in the memory of its operands.
    """
    with asking_for_histories():
        _insist_on_known_histories(ctx, name, operands)


def _insist_on_known_histories(ctx: Recording, name: str, operands: Collection[torch.Tensor]) -> None:
    """Breaks the graph where the operation changed a history that fakes do not show as the real tensors would."""
    if name == "detach_":
        _insist_on_no_view(ctx, operands)
    _insist_that_nobody_watches(ctx, name)
    for memory in set(map(memory_of, operands)):
        inputs = ctx.graph.inputs_over.get(memory, ())
        for fake in inputs:
            if _is_first_of_a_view(_last_step(ctx, name, fake)):
                _insist_on_being_no_view(ctx, name, fake)
        if memory in ctx.graph.mode.journal.written:
            _tell_views(ctx, inputs)
        if len(inputs) > 1 and any(_has_another_history(ctx, fake) for fake in inputs):
            _spoilt(ctx, f"`{name}` changes the history of tensors that share memory")
        for view in ctx.graph.views_without_history.get(memory, ()):
            if not has_known_history(view):
                ctx.graph.lost_histories.setdefault(id(view), ctx.graph.mode.journal.place)


def note_view(ctx: Recording, result: torch.Tensor, *, one_of_several: bool) -> None:
    """Notes a result whose history torch may be unable to tell, once its base is changed.

    Such are views that were made without a history, and those that one operator made together.
    """
    if (one_of_several or not torch.is_grad_enabled()) and not result.is_inference() and is_view(result):
        ctx.graph.views_without_history.setdefault(memory_of(result), []).append(result)


def insist_on_unchanged_neighbours(ctx: Recording, value: TensorValue) -> None:
    """Breaks the graph where an input shares memory with one whose history was changed in it.

    In eager it would have got another history as well, which a fake that is made only now has not.
    """
    inputs = ctx.graph.inputs_over.get(memory_of(value.fake), ())
    if any(fake is not value.fake and _has_another_history(ctx, fake) for fake in inputs):
        ctx.stop(Kind.AUTOGRAD, f"{value.describe()} shares memory with a tensor whose history was changed")


def _has_another_history(ctx: Recording, fake: torch.Tensor) -> bool:
    """True if an input's history is no longer the one that it came with."""
    known = ctx.tensors.get(id(fake))
    if known is None:
        return False
    wanted, step = known.node.meta["history"]
    try:
        return fake.requires_grad is not wanted or fake.grad_fn is not step
    except RuntimeError:  # a view that came without a history, of what got one
        return True


def _is_first_of_a_view(step: Any) -> bool:
    """True if a tensor without a history got one by what was written to a view of it."""
    return type(step).__name__ == "CopySlices" and step.next_functions[0][0] is None


def _insist_on_being_no_view(ctx: Recording, name: str, fake: torch.Tensor) -> None:
    """Breaks the graph for a view that gets a history through another view.

    A view learns of that when somebody asks for its history; until then, torch refuses to change it.  Its fake is no
    view, and knows at once.
    """
    value = ctx.tensors.get(id(fake))
    if value is None or value.source is None:
        return
    if is_view(value.obj):
        _spoilt(ctx, f"`{name}` gives {value.describe()}, a view, a history through another view")
    ctx.wrap(None, AttrSource(value.source, "_base"))


def _tell_views(ctx: Recording, written: Iterable[torch.Tensor]) -> None:
    """Notes which inputs with a history are views, once there was a write to them, for backends to be told.

    Autograd gives views another history then, and others not in the same way.
    """
    for fake in written:
        value = ctx.tensors.get(id(fake))
        if value is None or value.source is None or id(fake) in ctx.graph.views_known or not has_known_history(fake):
            continue
        if fake.grad_fn is not None:
            ctx.graph.views_known.add(id(fake))
            if answer_of(ctx, value, "_is_view"):
                ctx.graph.views.add(value.node)


def _insist_that_nobody_watches(ctx: Recording, name: str) -> None:
    """Breaks the graph where a tensor is changed in place that has hooks or keeps its gradient.

    CPython changes it, as hooks move to its new history.  Torch lets nobody change a leaf.
    """
    for key, (value, step) in list(ctx.graph.arrived.items()):
        if _last_step(ctx, name, value.fake) is not step:
            del ctx.graph.arrived[key]
            if value.obj.retains_grad or value.obj._backward_hooks:
                _spoilt(ctx, f"`{name}` changes {value.describe()}, which has hooks or keeps its gradient")
            for attribute in ("retains_grad", "_backward_hooks", "is_leaf"):
                ctx.guard(AttrSource(value.source, attribute), GuardKind.FALSE)


def _insist_on_no_view(ctx: Recording, operands: Iterable[torch.Tensor]) -> None:
    """Breaks the graph where ``detach_`` is called on a view, which torch refuses: the fake of one need be none."""
    for operand in operands:
        value = ctx.tensors.get(id(operand))
        if value is not None and value.source is not None:
            if is_view(value.obj):
                _spoilt(ctx, f"`detach_` is called on {value.describe()}, which is a view")
            ctx.wrap(None, AttrSource(value.source, "_base"))


def _last_step(ctx: Recording, name: str, fake: torch.Tensor) -> object:
    try:
        return fake.grad_fn
    except RuntimeError:  # a view that was changed in a mode without histories: torch can tell nothing more of it
        _spoilt(ctx, f"`{name}` changes a view, or what it is a view of, where nothing has a history")


def _spoilt(ctx: Recording, explanation: str) -> NoReturn:
    """Breaks the graph ahead of the operation: the fakes have changed, so evaluation restarts."""
    ctx.graph.spoilt += 1
    ctx.stop(Kind.AUTOGRAD, explanation, "it runs as in eager; the rest of the function is captured")
