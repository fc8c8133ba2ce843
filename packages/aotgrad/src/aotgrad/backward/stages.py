"""The autograd functions around a compiled pair whose outputs come from one another, or have nothing in common.

Gradients go from stage to stage as they do in eager, so hooks on the outputs between, gradients that they keep, and
gradients with respect to them are what they are there.  Forward is one graph; of backward, each stage runs its part.
Must not know: mutation and aliasing; `calling/wrapper.py` restores those around it.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from aotgrad.autograd_graph.saved_inputs import refuse_written
from aotgrad.autograd_graph.saved_tensors import refuse_partial_checkpoint, refuse_second_time
from aotgrad.backward.autograd_function import (
    Boxed,
    CompileBackward,
    DifferentiableBackward,
    FewerTangents,
    arranged,
    as_they_came,
    refused,
)
from aotgrad.backward.double_backward import history_of, plainly_applied
from aotgrad.backward.freeing import Freeing, Held, keeps_graph, saved_by
from aotgrad.backward.plan import Graphs, Plan
from aotgrad.calling.written_inputs import write_back
from aotgrad.roles import Gradient
from aotgrad.torch_versions import version_of


class Staged:
    """A function of the graph's inputs that autograd can differentiate output by output."""

    def __init__(self, plan: Plan, graphs: Graphs, forward: Boxed, compile_backward: CompileBackward) -> None:
        self.plan, self.forward, self.stages, self.count = plan, forward, plan.stages, len(plan.layout.behind)
        self.layout, self.results, self.read = plan.layout, plan.read, plan.stage_reads
        self.again = DifferentiableBackward(plan, graphs)
        self.known_sizes = plan.known_sizes
        self.fewer = FewerTangents(plan, graphs, compile_backward)
        self.early = {each.number: each for each in plan.early}
        self.reached_later = reached_later(plan)
        self.freeing = [self._freeing_of(place) for place in range(len(self.stages))]
        self._whole: Boxed | None = None
        self._compile = compile_backward

    def _freeing_of(self, place: int) -> Freeing:
        """The conditions under which a stage's saved tensors are let go."""
        behind = tuple(self.layout.behind[number] for number in self.stages[place].outputs)
        read = self.results[place]
        return Freeing(behind, sum(self.read[place]), False, len(read.own), read.computed_again)

    def come_by(self, arriving: Sequence[object]) -> int:
        """The nodes that hold tensors behind the results that gradients arrive for, as bits."""
        here = [each for each, tangent in zip(self.layout.behind, arriving, strict=True) if tangent is not None]
        if any(each.checkpoint for each in here):
            refuse_partial_checkpoint()
        return functools.reduce(operator.or_, (each.held for each in here), 0)

    def __call__(self, *given: object) -> tuple[Any, ...]:
        # Autograd follows the stages below, and nothing within the graph.
        with torch.no_grad():
            found = self.forward([*given])
        layout = self.layout
        values = [_unviewed(value) for value in found[: layout.values]]
        call = _Call(self, given, found[layout.values : layout.values + layout.sizes], values)
        saved = [_unviewed(value) for value in found[layout.values + layout.sizes :]]
        arrived: dict[int, torch.Tensor] = {}  # results as others come from them
        inputs = as_they_came(given, self.reached_later) if self.reached_later else given
        for place, stage in enumerate(self.stages):
            passed = [arrived[number] for number in sorted(stage.passed)]
            alone = not (stage.inputs or stage.passed)  # what autograd follows must hang on something
            reached = [value if alone or number in stage.inputs else None for number, value in enumerate(inputs)]
            kept = [value if read else None for value, read in zip(saved, self.read[place], strict=True)]
            own = [values[layout.differentiable[number]] for number in stage.outputs]
            below = {n: history_of(arrived[n]) for n in self.results[place].below}
            made: tuple[Any, ...] = _apply_stage(call, place, kept, own, below, *passed, *reached)
            for number, value in zip(stage.outputs, made, strict=True):
                values[layout.differentiable[number]] = arrived[number] = value
                if (early := self.early.get(number)) is not None:
                    arrived[number] = write_back(given[early.input], value, early.writes)
        return tuple(values)

    def gradients(
        self, sizes: Sequence[object], saved: Sequence[object], arriving: Sequence[object], arrived: Sequence[object]
    ) -> dict[Gradient, Any]:
        """The gradients by role, computed for the tangents that arrived."""
        absent = {number for number, tangent in enumerate(arriving) if tangent is None}
        given = [*sizes, *saved, *arriving]
        found: Sequence[Any]
        if self.known_sizes:
            found = self.fewer(absent, given, arrived)
        else:
            if self._whole is None:
                self._whole = self._compile(frozenset())
            found = self._whole(given)
        return dict(zip(self.plan.gradients, found, strict=True))


def reached_later(plan: Plan) -> frozenset[int]:
    """Inputs that are written back, and become the new value's, before a stage that comes from what they were."""
    early = {each.number: each.input for each in plan.early}
    written, reached = set[int](), set[int]()
    for stage in plan.stages:
        reached |= written & stage.inputs
        written.update(early[number] for number in stage.outputs if number in early)
    return frozenset(reached)


def _unviewed(value: object) -> Any:
    """The value detached if it is a view: a result could not be changed in place, and a saved tensor not be read once
    its base has become a result."""
    return value.detach() if isinstance(value, torch.Tensor) and value._is_view() else value


class _Call:
    """The data that the stages of one call share."""

    def __init__(self, staged: Staged, inputs: Sequence[Any], sizes: Sequence[Any], values: Sequence[Any]) -> None:
        self.staged, self.sizes = staged, sizes
        self.like = [(values[i].shape, values[i].dtype, values[i].device) for i in staged.layout.differentiable]
        kept = staged.layout.kept
        changed = staged.layout.changed
        self.inputs = as_they_came(inputs, changed) if changed else inputs
        self.versions: tuple[int, ...] | None = None
        with contextlib.suppress(RuntimeError):  # tensors made in inference mode have none
            self.versions = tuple(version_of(inputs[i]) for i in kept)


_NO_EDGES = 5
"""The number of arguments of `_Stage` that are no tensors."""


class _Stage(torch.autograd.Function):
    """The autograd function of one stage: its outputs come from earlier outputs and inputs, its backward runs its part
    of the compiled one."""

    @staticmethod
    def forward(
        ctx: Any,
        call: _Call,
        place: int,
        saved: Sequence[Any],
        values: Sequence[Any],
        below: Mapping[int, torch.Tensor],
        *edges: Any,
    ) -> tuple[Any, ...]:
        staged = call.staged
        own = [values[staged.stages[place].outputs.index(number)] for number in staged.results[place].own]
        # Held apart from the node, which autograd frees as soon as one backward has passed it.
        if staged.freeing[place].keeps:
            ctx.holder = Held(saved)
            ctx.save_for_backward(*own)
        else:
            ctx.save_for_backward(*saved, *own)
        ctx.call, ctx.place, ctx.below = call, place, below
        ctx.like, ctx.inputs, ctx.versions = call.like, call.inputs, call.versions
        ctx.freed = 0
        ctx.set_materialize_grads(False)
        return tuple(values)

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> Any:
        # Autograd calls a node that it passes for others' sake.
        if all(tangent is None for tangent in tangents):
            return (None,) * len(ctx.needs_input_grad)
        staged: Staged = ctx.call.staged
        arriving: list[Any] = [None] * staged.count
        for number, tangent in zip(staged.stages[ctx.place].outputs, tangents, strict=True):
            arriving[number] = tangent
        behind = staged.come_by(arriving)
        if ctx.freed & behind:
            refuse_second_time()
        for group, tangent in zip(staged.layout.noted.of_results, arriving, strict=True):
            if group is not None and tangent is not None:
                refuse_written(ctx, group)
        if torch.is_grad_enabled():
            found = staged.again.by_role(ctx, arriving, ctx.place, ctx.below)
            if isinstance(found, str):
                return _once(ctx, arriving, tangents, found)
        else:
            found = _taken(ctx, arriving)
            # Freed are the nodes that this backward passes in eager; our own stay as long as another backward may come.
            if not keeps_graph():
                ctx.freed |= behind
                if staged.freeing[ctx.place].is_over(ctx.freed):
                    ctx.maybe_clear_saved_tensors()
                    ctx.holder = ctx.inputs = ctx.noted = None
        return _by_edge(ctx, found)


_apply_stage = plainly_applied(_Stage)


def _taken(ctx: Any, arriving: Sequence[Any]) -> dict[Gradient, Any]:
    """The gradients by the compiled backward, for the tangents that arrived."""
    staged: Staged = ctx.call.staged
    pairs = enumerate(zip(arriving, staged.plan.tangents, strict=True))
    given = [None if pair[0] is None and staged.known_sizes else arranged(ctx, number, pair) for number, pair in pairs]
    absent = {number for number, tangent in enumerate(arriving) if tangent is None}
    read = staged.read[ctx.place]
    reads = (lambda: staged.fewer.reads(absent)) if staged.known_sizes else None
    saved = saved_by(ctx, reads)[: len(read)] if any(read) else [None] * len(read)
    with torch.no_grad():
        found = staged.gradients(ctx.call.sizes, saved, given, arriving)
    found = {**found, **{role: arriving[number] for role, number in staged.plan.passed_on}}
    return {role: None if absent.issuperset(role.tangents) else gradient for role, gradient in found.items()}


def _by_edge(ctx: Any, found: dict[Gradient, Any]) -> tuple[Any, ...]:
    """Gradients in the order of the stage's arguments."""
    staged: Staged = ctx.call.staged
    stage = staged.stages[ctx.place]
    below = sorted(stage.passed)
    by_number = {role.input: gradient for role, gradient in found.items() if role.passed}
    by_input = {
        role.input: gradient for role, gradient in found.items() if not role.passed and role.input in stage.inputs
    }
    inputs = range(len(ctx.needs_input_grad) - _NO_EDGES - len(below))
    return (None,) * _NO_EDGES + tuple(map(by_number.get, below)) + tuple(map(by_input.get, inputs))


def _once(ctx: Any, arriving: Sequence[Any], tangents: Sequence[Any], reason: str) -> Any:
    gradients = _by_edge(ctx, _taken(ctx, arriving))
    return refused(reason, gradients, [*ctx.inputs, *(tangent for tangent in tangents if tangent is not None)])
