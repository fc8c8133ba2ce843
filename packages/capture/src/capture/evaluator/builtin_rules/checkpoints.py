"""``torch.utils.checkpoint``: what is computed inside is a region of the graph that backward runs again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.utils.checkpoint

from capture.evaluator.assumptions import Stopped
from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.reasons import Kind, Reason
from capture.values.autograd_leaves import History
from capture.values.base import Value, reachable, realize, settled
from capture.values.constant import FALSE, NONE, TRUE, is_none
from capture.values.function import CellValue, FunctionValue
from capture.values.tensor import TensorValue

_OWN = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


@rule(torch.utils.checkpoint.checkpoint)
def checkpoint(ctx: World, function: Value, *args: Value, **kwargs: Value) -> Value:
    """Evaluates the function of a checkpoint as a region of the graph; forms of it that do more are CPython's."""
    args = tuple(realize(ctx, arg) for arg in args)
    own = {name: kwargs.pop(name) for name in _OWN if name in kwargs}
    # Nothing is kept for backward, so that there is nothing to run again.
    if not torch.is_grad_enabled():
        return ctx.call(function, args, kwargs)
    reentrant = own.get("use_reentrant", NONE)
    if is_none(reentrant) or "context_fn" in own or own.get("debug", FALSE).truth(ctx):
        ctx.stop(Kind.CHECKPOINT, "`checkpoint` is called without `use_reentrant`, with `context_fn` or for debugging")
    if reentrant.truth(ctx) and not any(isinstance(arg, TensorValue) and arg.fake.requires_grad for arg in args):
        ctx.stop(Kind.CHECKPOINT, "a reentrant `checkpoint` of tensors without gradients gives its parameters none")
    if torch.is_inference_mode_enabled():
        ctx.stop(Kind.CHECKPOINT, "`checkpoint` is called in inference mode, where gradients are wanted")
    # A reentrant checkpoint is called as one that does not reenter: that one takes parameters from the closure.
    options = {"preserve_rng_state": own.get("preserve_rng_state", TRUE).truth(ctx), "use_reentrant": False}
    with ctx.region(args, options):
        result = ctx.call(function, args, kwargs)
    if reentrant.truth(ctx):
        _note_reentrant(ctx, [value for value in reachable([result]) if isinstance(value, TensorValue)])
    _read_again(ctx, function)
    return result


def _read_again(ctx: World, function: Value) -> None:
    """Breaks the graph before a variable of the function's closure is bound anew.

    Backward calls the function once more, which then finds in its closure what is there by that time.
    """
    instruction, step = ctx.graph.mode.journal.place
    for cell in _cells(function, set()):
        explanation = "a variable of the function in a `checkpoint` is bound anew before backward calls it again"
        stopped = Stopped(instruction, step, Reason(Kind.CHECKPOINT, explanation), ctx.location())
        ctx.effects.final.setdefault(cell, stopped)


def _cells(function: Value, met: set[int]) -> Iterator[CellValue]:
    """The closure of a function, and those of functions in it."""
    function = settled(function)
    if not isinstance(function, FunctionValue) or id(function) in met:
        return
    met.add(id(function))
    for cell in function.closure:
        yield cell
        yield from _cells(cell.content, met)


def _note_reentrant(ctx: World, results: Sequence[TensorValue]) -> None:
    """Notes the results of a reentrant checkpoint, and breaks the graph where it would treat them otherwise.

    To torch it is a function with a backward of its own, whose results all have gradients.
    """
    origins = [History([value.fake]).beginnings() for value in results if value.fake.grad_fn is not None]
    if any(each != origins[0] for each in origins):
        explanation = "a reentrant `checkpoint` gives zeros, not nothing, to what only an unused result hangs on"
        ctx.stop(Kind.CHECKPOINT, explanation, "`use_reentrant=False` is captured")
    for value in results:
        if value.fake.grad_fn is not None:
            ctx.graph.reentrant[value.fake.grad_fn] = (*ctx.graph.mode.journal.place, ctx.location())
        elif value.source is None and (value.fake.is_floating_point() or value.fake.is_complex()):
            ctx.stop(Kind.CHECKPOINT, "a reentrant `checkpoint` gives a history to a tensor that has none inside of it")
