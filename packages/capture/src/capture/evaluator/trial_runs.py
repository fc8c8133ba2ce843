"""Trial runs that show what code does: it may make objects of its own, and must leave older ones alone.

Torch runs the evaluated functions itself, once or more often, when the graph runs: what they changed of the program's
objects meanwhile would be done too early, too often, or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence

import torch

from capture.evaluator.frame import Frame
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Value, reachable, settled
from capture.values.function import NamespaceValue
from capture.values.mapping import DictValue
from capture.values.tensor import TensorValue

HINT = "torch does all of it as in eager, and the rest of the function is captured"


@contextlib.contextmanager
def rehearsed(ctx: World, frames: Sequence[Frame], given: Sequence[Value]) -> Iterator[None]:
    """A context of evaluation that leaves no trace.

    ``given`` is what the evaluated function is called with, from these frames.
    """
    recorded = ctx.graph.mark()
    with ctx.effects.watched() as changed, torch.no_grad():
        yield
    if _is_older(ctx, frames, changed, given):
        ctx.stop(Kind.EFFECTS, "a function with a backward of its own changes objects outside of it")
    ctx.graph.forget(recorded)


@contextlib.contextmanager
def recorded_region(
    ctx: World, frames: Sequence[Frame], passed: Sequence[Value], options: Mapping[str, object]
) -> Iterator[None]:
    """A context of evaluation whose operations a checkpoint is to run again in backward, with these options."""
    recorded = ctx.graph.mark()
    with ctx.effects.watched() as changed:
        yield
    if _is_older(ctx, frames, changed, passed) or ctx.graph.differentiated_since(recorded):
        ctx.stop(Kind.EFFECTS, "what backward is to run again changes objects outside of it, or goes backward itself")
    tensors = [value.node for value in passed if isinstance(value, TensorValue)]
    ctx.graph.close_region(recorded, tensors, options)


@contextlib.contextmanager
def repeatable(ctx: World, frames: Sequence[Frame], given: Sequence[Value]) -> Iterator[None]:
    """A context of evaluation that is done once more, or run more often than it is evaluated.

    Behind it, all that is not its own has to be as it was.
    """
    recorded, others = ctx.graph.mark(), _other_effects(ctx)
    written = len(ctx.graph.mode.journal.order)
    with ctx.effects.watched() as changed:
        yield
    changed_for_good = [value for value, before in changed.items() if not _is_as_it_was(value, before)]
    memory = ctx.graph.mode.journal.order[written:]
    if _is_older(ctx, frames, changed_for_good, given) or others != _other_effects(ctx):
        ctx.stop(Kind.EFFECTS, "a function that is transformed, and called more than once, changes objects", HINT)
    if ctx.graph.memory_before(recorded).intersection(memory):
        ctx.stop(Kind.EFFECTS, "a function that is transformed, and called more than once, changes tensors", HINT)


def _other_effects(ctx: World) -> tuple[int, ...]:
    """The numbers of those effects that change no value."""
    return len(ctx.effects.calls), len(ctx.effects.clocks)


def _is_as_it_was(value: Value, before: Sequence[Value]) -> bool:
    """True if a dict has its items again, as that of a module which lent its parameters.

    What other values refer to does not tell all that they are.
    """
    after = list(value.changes()) if isinstance(value, DictValue) else []
    same = isinstance(value, DictValue) and len(before) == len(after)
    return same and all(settled(one) is settled(other) for one, other in zip(before, after, strict=True))


def _is_older(ctx: World, frames: Sequence[Frame], changed: Collection[Value], given: Sequence[Value]) -> bool:
    """True if one of the changed objects was there before: the program's, or what the frames made and still hold."""
    if any(value.source is not None or isinstance(value, NamespaceValue) for value in changed):
        return True
    if not changed:
        return False
    held = [value for frame in frames for value in (*frame.slots.values(), *frame.stack)]
    written = ctx.effects.written_values()
    return not set(changed).isdisjoint(reachable([*given, *held, *written]))
