"""Plans of compiled calls, as frozen data, and the calls that are made of them: the one way from graphs to a callable.

A plan says all that surrounds what was compiled.  Whoever compiled just now and whoever takes up what another process
compiled make the call here.
Must not know: how plans come about, how graphs are compiled or kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import fx

from aotgrad.backward.autograd_function import Boxed, differentiable_function
from aotgrad.backward.batched_tangents import compiled_or_batched
from aotgrad.backward.plan import Graphs, Plan
from aotgrad.backward.stages import Staged
from aotgrad.backward.under_autocast import as_the_mode_is, casting_no_more
from aotgrad.calling.inference_mode import made_elsewhere, running_elsewhere
from aotgrad.calling.wrapper import Call, wrap_call
from aotgrad.facts import Facts
from aotgrad.partitioning.partition import Half
from aotgrad.stacks.plan import StackPlan
from aotgrad.torch_versions import set_grad_enabled, unsafe_set_version_counter
from aotgrad.tracing.inputs import Signature


@dataclass(frozen=True, slots=True)
class InferencePlan:
    """All that the wrapper around a graph for inference is made of, beside what was compiled."""

    signature: Signature
    facts: Facts
    written: frozenset[int]
    without_history: bool
    with_history: bool
    inference_mode: bool
    casts: bool = False  # traced within autocast


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """All that the wrapper around a graph that trains is made of, beside its graphs and what was compiled of them."""

    signature: Signature
    facts: Facts
    pair: Plan
    with_history: bool
    inference_mode: bool
    casts: bool = False


@dataclass(frozen=True, slots=True)
class MadeOf:
    """The parts of a call, for whoever describes it; ``graphs`` where it trains."""

    plan: InferencePlan | TrainingPlan
    compiled: Boxed
    graphs: Graphs | None = None


@dataclass(frozen=True, slots=True)
class StackOf:
    """The parts of a program of parts, for whoever describes it."""

    plan: StackPlan
    parts: Sequence[Call]


def inference_call(plan: InferencePlan, compiled: Boxed) -> Call:
    """The wrapper that a plan says, around a compiled graph; made in the inference mode that the plan says."""
    inner = casting_no_more(compiled) if plan.casts else compiled
    inner = _without_history(inner) if plan.without_history else inner
    inner = _where_it_is_made(plan.facts, inner, len(plan.facts.updates) - len(plan.written))
    call = wrap_call(plan.signature, plan.facts, inner, boxed=True, written=plan.written)
    return _with_history(call) if plan.with_history else call


def training_call(
    plan: TrainingPlan, graphs: Graphs, compiled: Boxed, compile_backward: Callable[[Half], Boxed]
) -> Call:
    """The function around a compiled forward, and a backward that is compiled when it is first needed."""
    facts, pair = plan.facts, plan.pair
    forward = _written_as_often(facts, casting_no_more(compiled) if plan.casts else compiled)

    def backward(absent: frozenset[int]) -> Boxed:
        half, make = partial(graphs.without, absent), partial(graphs.compiled, absent, compile_backward)
        tangents = len(pair.tangents) - len(absent)

        def with_casts(module: fx.GraphModule) -> Boxed:
            cast = replace(half(), module=module)
            return compiled_or_batched(lambda: cast, tangents, partial(compile_backward, cast))

        return as_the_mode_is(compiled_or_batched(half, tangents, make), lambda: half().module, with_casts)

    made = (Staged if pair.stages else differentiable_function)(pair, graphs, forward, backward)
    made = _where_it_is_made(facts, made, len(facts.updates))
    early = frozenset(each.input for each in pair.early)
    noted = pair.layout.noted, pair.layout.differentiable
    call = wrap_call(plan.signature, facts, made, boxed=False, early=early, noted=noted)
    return _with_history(call) if plan.with_history else call


def _without_history(inner: Boxed) -> Boxed:
    """The program's results have no history, though its inputs want gradients: it took the gradients itself.

    A view made meanwhile could not be changed in place later, where gradients are on: it is detached.
    """

    def run(inputs: list[object]) -> Sequence[Any]:
        mode = torch.is_grad_enabled()
        set_grad_enabled(False)
        try:
            results = inner(inputs)
        finally:
            set_grad_enabled(mode)
        return [each.detach() if isinstance(each, torch.Tensor) and each._is_view() else each for each in results]

    return run


def _where_it_is_made(facts: Facts, inner: Callable[..., Any], updates: int) -> Callable[..., Any]:
    """`inner`, which returns that many updates ahead of its results: these are of the mode that they are made in."""
    if not facts.elsewhere:
        return inner
    if not updates and len(facts.elsewhere) == facts.results:
        return running_elsewhere(inner)
    return made_elsewhere(inner, [updates + index for index in facts.elsewhere])


def _with_history(call: Call) -> Call:
    """The program enables gradients itself, so what it returns has a history though the caller's mode is off."""

    def run(*args: object) -> Sequence[Any]:
        with torch.enable_grad():
            return call(*args)

    return run


def _written_as_often(facts: Facts, forward: Boxed) -> Boxed:
    """`forward`, whose results count the program's own writes: before any is saved, since autograd looks whether a
    version is still what it was."""
    if not facts.versions:
        return forward
    updates = len(facts.updates)
    places, versions = [updates + index for index, _ in facts.versions], [version for _, version in facts.versions]

    def run(inputs: list[object]) -> Sequence[Any]:
        values = forward(inputs)
        unsafe_set_version_counter([values[place] for place in places], versions)
        return values

    return run
