"""The plan of the autograd functions around a compiled pair: all that they are made of beside graphs, as frozen data.

It is read off the joint graph and the pair once; what was compiled here and what another process compiled are both
built from it alone.
Must not know: how the functions are written, how graphs are compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch

from aotgrad.autograd_graph.result_levels import Stage
from aotgrad.autograd_graph.saved_inputs import Noted, grouped
from aotgrad.autograd_graph.saved_tensors import Behind
from aotgrad.backward.absent_tangents import has_known_sizes, without_tangents
from aotgrad.backward.double_backward import ResultsRead, always_kept, inputs_differentiated, inputs_read, results_read
from aotgrad.eager import Boxed
from aotgrad.partitioning.partition import Half, Pair
from aotgrad.roles import Gradient, Primal, Result, Saved, SavedSize, Tangent, UpdatedInput
from aotgrad.tensors.symbols import has_hint, size_hint
from aotgrad.tensors.views import root_of
from aotgrad.tracing.joint import JointGraph

MemoryLayout: TypeAlias = torch.memory_format | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The split of forward's outputs: values for the caller, saved sizes, saved tensors."""

    values: int
    tensors: int
    sizes: int
    saved: int
    differentiable: tuple[int, ...]
    kept: tuple[int, ...]  # inputs that computing the gradients again reads
    changed: frozenset[int]  # inputs that get a history of this very function: kept, they would keep it for ever
    behind: tuple[Behind, ...]  # each differentiable value
    noted: Noted  # inputs that autograd saved and this function did not

    @property
    def order(self) -> tuple[int, ...]:
        """The values as the function gives them to autograd, those first that it follows: torch asserts where a node's
        second result keeps its gradient and is then written to."""
        return (*self.differentiable, *(each for each in range(self.values) if each not in self.differentiable))


@dataclass(frozen=True, slots=True)
class EarlyWrite:
    """The result of this number is an input's new value, and others come from it: it is written back before they are
    made, so that they come from the caller's tensor, with its hooks, and go back by it."""

    number: int
    input: int
    writes: int


@dataclass(frozen=True, slots=True)
class PartialBackward:
    """Backward where some tangents are absent: which inputs of the whole one it takes, and what it gives."""

    absent: frozenset[int]
    taken: tuple[int, ...]
    gradients: tuple[Gradient, ...]
    passed_on: tuple[tuple[Gradient, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is known of a pair of graphs, forward and backward, before it runs.

    ``stages`` where some outputs go back apart from others, each of which has an item in ``read``, in ``stage_reads``
    whether it reads each saved tensor, and in ``partial`` its backward.
    """

    inputs: int  # of forward
    layout: Layout
    read: tuple[ResultsRead, ...]
    saved_views: tuple[bool, ...]
    unconnected: frozenset[int]
    tangents: tuple[MemoryLayout, ...]
    gradients: tuple[Gradient, ...]
    passed_on: tuple[tuple[Gradient, int], ...]
    known_sizes: bool
    stages: tuple[Stage, ...] = ()
    stage_reads: tuple[tuple[bool, ...], ...] = ()
    partial: tuple[PartialBackward, ...] = ()
    early: tuple[EarlyWrite, ...] = ()


class Later(Protocol):
    """A store in which compiled backward graphs are found by name, and kept for other processes."""

    def find(self, name: str) -> Boxed | None: ...

    def keep(self, name: str, compiled: Boxed) -> None: ...


class Graphs:
    """The graphs that a compiled function may come back to: backward when somebody first goes back, the joint graph
    where a gradient is differentiated.  Both are asked for when they are needed, and once.

    ``name`` and ``later``, once they are described or were read: what backward is found by when it is compiled, and
    where; it need not be asked for then."""

    name = ""
    later: Later | None = None

    def __init__(self, joint: Callable[[], JointGraph], backward: Callable[[], Half]) -> None:
        self._read_joint, self._read_backward = joint, backward
        self._joint: JointGraph | None = None
        self._backward: Half | None = None
        self._halves: dict[frozenset[int], Half] = {}

    @property
    def joint(self) -> JointGraph:
        if self._joint is None:
            self._joint = self._read_joint()
        return self._joint

    @property
    def backward(self) -> Half:
        if self._backward is None:
            self._backward = self._read_backward()
        return self._backward

    def without(self, absent: frozenset[int]) -> Half:
        """Backward where these tangents are absent."""
        if absent not in self._halves:
            self._halves[absent] = without_tangents(self.backward, absent) if absent else self.backward
        return self._halves[absent]

    def compiled(self, absent: frozenset[int], compile_half: Callable[[Half], Boxed]) -> Boxed:
        """Backward where these tangents are absent, compiled, here or before."""
        name = f"{self.name} {sorted(absent)}"
        found = None if self.later is None else self.later.find(name)
        if found is None:
            found = compile_half(self.without(absent))
            if self.later is not None:
                self.later.keep(name, found)
        return found


def plan_of(joint: JointGraph, pair: Pair, graphs: Graphs) -> Plan:
    layout, known_sizes = layout_of(joint, pair), has_known_sizes(pair.backward)
    inputs = zip(pair.backward.inputs, pair.backward.example_inputs, strict=True)
    return Plan(
        len(pair.forward.inputs),
        layout,
        results_read(joint),
        _saved_views(pair),
        unconnected(joint),
        tuple(memory_layout(value) for role, value in inputs if isinstance(role, Tangent)),
        gradients_of(pair.backward),
        gradients_passed_on(pair.backward),
        known_sizes,
        joint.stages,
        _stage_reads(joint, pair, graphs if known_sizes else None),
        tuple(partial_backward(graphs, _absent(joint, stage)) for stage in joint.stages) if known_sizes else (),
        _early_writes(joint, pair, layout),
    )


def layout_of(joint: JointGraph, pair: Pair) -> Layout:
    roles = pair.forward.outputs
    sizes = sum(isinstance(role, SavedSize) for role in roles)
    saved = sum(isinstance(role, Saved) for role in roles)
    marked = [i for i, role in enumerate(roles) if isinstance(role, (UpdatedInput, Result)) and role.differentiable]
    tensors = sum(isinstance(role, (UpdatedInput, Result)) for role in roles)
    changed = frozenset(mutation.input for mutation in pair.facts.mutations if mutation.tracked)
    # Which inputs are read again is not what forward saves: gradients of gradients need more.
    kept = inputs_read(joint)
    own = _saved_inputs(pair)
    noted = grouped([frozenset(saved for saved in each.inputs if saved.input not in own) for each in joint.behind])
    return Layout(len(roles) - sizes - saved, tensors, sizes, saved, tuple(marked), kept, changed, joint.behind, noted)


def _saved_inputs(pair: Pair) -> set[int]:
    """The inputs that forward saves as they are, with their versions."""
    graph = pair.forward.module.graph
    given = {node: number for number, node in enumerate(graph.find_nodes(op="placeholder"))}
    returned = zip(graph.output_node().args[0], pair.forward.outputs, strict=True)
    return {given[node] for node, role in returned if isinstance(role, Saved) and node in given}


def _saved_views(pair: Pair) -> tuple[bool, ...]:
    """For each saved tensor, whether it is a view.

    Made without gradients, of what autograd gives a history afterwards, a view could not be read in backward.
    """
    returned = zip(pair.forward.module.graph.output_node().args[0], pair.forward.outputs, strict=True)
    return tuple(root_of(node) is not node for node, role in returned if isinstance(role, Saved))


def unconnected(joint: JointGraph) -> frozenset[int]:
    """Inputs that autograd cannot come to from any result, though they require grad.

    Results that autograd follows must hang on something: where it is nothing that is known, all stay.
    """
    gradients = {role.input for role in joint.outputs if isinstance(role, Gradient) and not role.passed}
    needed = gradients | inputs_differentiated(joint)
    roles = (node.meta["role"] for node in joint.graph.find_nodes(op="placeholder"))
    given = enumerate(role for role in roles if not isinstance(role, Tangent))
    followed = {index: role for index, role in given if isinstance(role, Primal) and role.requires_grad}
    apart = frozenset(index for index, role in followed.items() if index not in needed and not role.reached)
    return frozenset() if len(apart) == len(followed) else apart


def gradients_of(half: Half) -> tuple[Gradient, ...]:
    return tuple(role for role in half.outputs if isinstance(role, Gradient))


def gradients_passed_on(half: Half) -> tuple[tuple[Gradient, int], ...]:
    """Gradients that are a tangent as it stands, by its number: eager hands it on as it came, however it lies."""
    graph = half.module.graph
    tangents = [node for node in graph.find_nodes(op="placeholder") if isinstance(node.meta["role"], Tangent)]
    pairs = zip(graph.output_node().args[0], half.outputs, strict=True)
    return tuple(
        (role, tangents.index(node)) for node, role in pairs if isinstance(role, Gradient) and node in tangents
    )


def memory_layout(value: torch.Tensor) -> MemoryLayout:
    """The memory format of a dense tensor, or its dimensions from the outermost in memory to the innermost."""
    if not all(map(has_hint, value.shape)):
        return _order_by_products(value)
    for layout in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d):
        ranks = {torch.channels_last: 4, torch.channels_last_3d: 5}
        if ranks.get(layout, value.dim()) == value.dim() and value.is_contiguous(memory_format=layout):
            return layout
    return tuple(sorted(range(value.dim()), key=lambda dim: -size_hint(value.stride(dim))))


def _order_by_products(value: torch.Tensor) -> MemoryLayout:
    """The layout where data tells a size, so that nothing may be asked of it: strides are compared as expressions."""
    waiting, order = list(range(value.dim())), list[int]()
    step: int | torch.SymInt = 1
    while waiting:
        # The innermost that is left begins where those within it end; from the back, as a size may be 1.
        inner = next((dim for dim in reversed(waiting) if _text(value.stride(dim)) == _text(step)), waiting[-1])
        waiting.remove(inner)
        order.insert(0, inner)
        step = step * value.shape[inner]
    return torch.contiguous_format if order == list(range(value.dim())) else tuple(order)


def _text(number: int | torch.SymInt) -> str:
    """The expression of a step.  Torch has those over nothing at least 1, which lie alike."""
    return re.sub(r"Max\(1, (u\d+)\)", r"\1", str(number))


def _stage_reads(joint: JointGraph, pair: Pair, graphs: Graphs | None) -> tuple[tuple[bool, ...], ...]:
    """The saved tensors that the backward of each stage reads, as flags.

    Without ``graphs`` nobody knows, and it reads all.
    """
    saved = [role for role in pair.backward.inputs if isinstance(role, Saved)]
    if graphs is None:
        return tuple((True,) * len(saved) for _ in joint.stages)
    always = always_kept(joint) if joint.stages else set()

    def reads(stage: Stage) -> tuple[bool, ...]:
        read = graphs.without(_absent(joint, stage)).inputs
        return tuple(role in read or role.name in always for role in saved)

    return tuple(reads(stage) for stage in joint.stages)


def _absent(joint: JointGraph, stage: Stage) -> frozenset[int]:
    return frozenset(range(len(joint.behind))).difference(stage.outputs)


def partial_backward(graphs: Graphs, absent: frozenset[int]) -> PartialBackward:
    half = graphs.without(absent)
    left = set(half.inputs)
    taken = tuple(place for place, role in enumerate(graphs.backward.inputs) if role in left)
    return PartialBackward(absent, taken, gradients_of(half), gradients_passed_on(half))


def _early_writes(joint: JointGraph, pair: Pair, layout: Layout) -> tuple[EarlyWrite, ...]:
    plainly = {each.input: each.writes for each in pair.facts.mutations if each.tracked and each.layout is None}
    passed = frozenset[int]().union(*(stage.passed for stage in joint.stages))
    roles = {number: pair.forward.outputs[layout.differentiable[number]] for number in passed}
    updated = [(number, role.input) for number, role in roles.items() if isinstance(role, UpdatedInput)]
    return tuple(EarlyWrite(number, index, plainly[index]) for number, index in updated if index in plainly)
