"""A graph as parts and calls of them: each stack is one part, called once for each layer.

    embed ─► [ part 0 ]─► h ─► [ part 1 ]─► h ─► [ part 1 ]─► ... ─► h ─► [ part 2 ]─► logits
                                 weights of layer 0   of layer 1

Must not know: how parts are traced, or the calls written.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from aotgrad.graph_modules import graph_module
from aotgrad.stacks.borders import Crossing, best_border, convolves
from aotgrad.stacks.keys import Keys, operands
from aotgrad.stacks.modes import come_back, modes_at, sets_grad
from aotgrad.stacks.stretches import LEAST_SAVED, SMALLEST_LAYER, Stretch, stretches
from aotgrad.tensors.functional import memory_of


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the graph as a graph of its own; ``inputs`` are the nodes that it is first called with, and ``grad``
    says whether autograd follows there."""

    module: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    grad: bool


@dataclass(frozen=True, slots=True)
class PartCall:
    """A part called with the values of some nodes, for those of others."""

    part: int
    first: fx.Node
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]


@dataclass(frozen=True, slots=True)
class Direct:
    """A node that torch runs between two parts: it asks for gradients, or sets whether autograd follows."""

    node: fx.Node

    @property
    def inputs(self) -> tuple[fx.Node, ...]:
        return tuple(self.node.all_input_nodes)

    @property
    def outputs(self) -> tuple[fx.Node, ...]:
        return (self.node,)


@dataclass(frozen=True, slots=True)
class Split:
    """The parts of a graph, and the calls of them in order."""

    parts: tuple[Part, ...]
    calls: tuple[PartCall | Direct, ...]

    def times(self, part: int) -> int:
        return sum(isinstance(call, PartCall) and call.part == part for call in self.calls)


@dataclass(frozen=True, slots=True)
class _Layers:
    """Equal runs of nodes: the values that each takes from elsewhere, in one order, and the positions in a run whose
    values others read."""

    runs: tuple[Sequence[fx.Node], ...]
    taken: tuple[tuple[fx.Node, ...], ...]
    read: tuple[int, ...]
    grad: bool


def split(gm: fx.GraphModule, *, images: bool = True) -> Split | None:
    """The graph in parts; None where too little repeats, or something would have to cross that cannot.

    Without `images` convolutions stay together: how those lie in memory is decided for a whole chain.
    """
    return _Splitter(gm, images=images).split()


class _Splitter:
    """The search for the layers of one graph."""

    def __init__(self, gm: fx.GraphModule, *, images: bool) -> None:
        self._gm = gm
        self._images = images
        self._nodes = [node for node in gm.graph.nodes if node.op not in ("placeholder", "output")]
        self._places = {node: place for place, node in enumerate(self._nodes)}
        self._keys = Keys(gm)
        self._numbers = [self._keys.of(node) for node in self._nodes]
        self._weights = [weight(node) for node in self._nodes]
        self._modes = modes_at(self._nodes)
        self._crossing = Crossing(self._nodes, self._places)

    def split(self) -> Split | None:
        stacks = list(self._stacks(0, len(self._nodes)))
        if not stacks:
            return None
        parts: list[Part] = []
        calls: list[PartCall | Direct] = []
        for layers in self._all_in_order(stacks):
            if isinstance(layers, Direct):
                calls.append(layers)
                continue
            for run, taken in zip(layers.runs, layers.taken, strict=True):
                calls.append(PartCall(len(parts), run[0], taken, tuple(run[offset] for offset in layers.read)))
            parts.append(Part(self._module(layers), layers.taken[0], layers.grad))
        found = Split(tuple(parts), tuple(calls))
        return found if self._can_be_given(found) else None

    def _can_be_given(self, found: Split) -> bool:
        """True if each part can be given the values that it takes of others, and the graph leaves the modes that it
        enters as it found them."""
        calls = [call for call in found.calls if isinstance(call, PartCall)]
        firsts = ((call, self._places[call.first]) for call in calls)
        given = ((node, place) for call, place in firsts for node in call.inputs if node.op != "placeholder")
        return come_back(self._modes) and all(self._crossing.can_be_given(*each) for each in given)

    def _stacks(self, start: int, end: int) -> Iterator[_Layers]:
        """The stacks from `start` to `end`, in order: the longest one, and those on either side of it."""
        layers = self._longest(start, end)
        if layers is None:
            return
        first, last = self._places[layers.runs[0][0]], self._places[layers.runs[-1][-1]]
        yield from self._stacks(start, first)
        yield layers
        yield from self._stacks(last + 1, end)

    def _longest(self, start: int, end: int) -> _Layers | None:
        for found in stretches(self._numbers[start:end], self._weights[start:end]):
            whole = Stretch(found.start + start, found.period, found.times, found.rest)
            stretch = best_border(self._crossing, whole, self._modes)
            if stretch is None or (not self._images and self._convolves(stretch)):
                continue
            layers = self._layers(stretch)
            # A border may have cost a layer: whether what is left saves enough is asked once more.
            work = sum(map(weight, layers.runs[0]))
            if (len(layers.runs) - 1) * work >= LEAST_SAVED and _hands_on_little(layers, work):
                return layers
        return None

    def _convolves(self, stretch: Stretch) -> bool:
        return any(map(convolves, self._nodes[stretch.start : stretch.start + stretch.period]))

    def _layers(self, stretch: Stretch) -> _Layers:
        """The layers of a stretch that are equal; the first may differ: what it is given comes from elsewhere."""
        starts = range(stretch.start, stretch.start + stretch.period * stretch.times, stretch.period)
        runs = [self._nodes[start : start + stretch.period] for start in starts]
        alike = max(self._alike(runs), self._alike(runs[1:]), key=len)
        read = sorted({offset for run in alike for offset in self._read(run)})
        return _Layers(tuple(alike), tuple(self._taken(alike)), tuple(read), self._modes[stretch.start].grad)

    def _alike(self, runs: Sequence[Sequence[fx.Node]]) -> Sequence[Sequence[fx.Node]]:
        """The runs, from the first on, that use one another's values in the same way, and memory as the first does;
        keys of nodes cover the rest."""
        if not runs:
            return runs
        wanted = self._within(runs[0])
        runs = [*itertools.takewhile(lambda run: self._within(run) == wanted, runs)]
        taken = self._taken(runs)
        memory = self._memory(taken[0])
        return runs[: len([*itertools.takewhile(lambda nodes: self._memory(nodes) == memory, taken)])]

    def _within(self, run: Sequence[fx.Node]) -> list[int | None]:
        """For each operand of each node the position in the run where it is made; None if elsewhere."""
        own = {node: offset for offset, node in enumerate(run)}
        return [own.get(operand) for node in run for operand in operands(node)]

    def _taken(self, runs: Sequence[Sequence[fx.Node]]) -> list[tuple[fx.Node, ...]]:
        """The values that each run takes from elsewhere; operands that are the same node in each run are one."""
        columns = zip(*([operand for node in run for operand in operands(node)] for run in runs), strict=True)
        own = set(runs[0])
        outside = dict.fromkeys(column for column in columns if column[0] not in own)
        return list(zip(*outside, strict=True)) if outside else [() for _ in runs]

    def _memory(self, nodes: Sequence[fx.Node]) -> list[int]:
        """For each of the nodes the position of the first one with the same memory."""
        first: dict[int, int] = {}
        shared: list[int] = []
        for place, node in enumerate(nodes):
            value = node.meta.get("example_value")
            memory = memory_of(value) if isinstance(value, torch.Tensor) else -1 - place
            shared.append(first.setdefault(memory, place))
        return shared

    def _read(self, run: Sequence[fx.Node]) -> Iterator[int]:
        own = set(run)
        for offset, node in enumerate(run):
            if not own.issuperset(node.users):
                yield offset

    def _all_in_order(self, stacks: Sequence[_Layers]) -> Iterator[_Layers | Direct]:
        """The stacks, and what is between them as layers of their own."""
        place = 0
        for layers in stacks:
            yield from self._single(place, self._places[layers.runs[0][0]])
            yield layers
            place = self._places[layers.runs[-1][-1]] + 1
        yield from self._single(place, len(self._nodes))

    def _single(self, start: int, end: int) -> Iterator[_Layers | Direct]:
        """The nodes between two stacks as layers of their own, cut where torch has to run one."""
        unbalanced = self._modes[start] != self._modes[end]
        first = start
        for place in range(start, end):
            node = self._nodes[place]
            if _is_direct(node) or (unbalanced and sets_grad(node) and not self._modes[place].entered):
                yield from self._layer(first, place)
                yield Direct(node)
                first = place + 1
        yield from self._layer(first, end)

    def _layer(self, start: int, end: int) -> Iterator[_Layers]:
        if run := self._nodes[start:end]:
            grad = self._modes[start].grad
            yield _Layers((run,), tuple(self._taken([run])), tuple(self._read(run)), grad)

    def _module(self, layers: _Layers) -> fx.GraphModule:
        graph = fx.Graph()
        made = {node: _placeholder(graph, node) for node in layers.taken[0]}
        for node in layers.runs[0]:
            made[node] = graph.node_copy(node, made.__getitem__)
        graph.output(tuple(made[layers.runs[0][offset]] for offset in layers.read))
        return graph_module(self._gm, graph)


def _hands_on_little(layers: _Layers, work: int) -> bool:
    """True if layers compute many operators for each value that others read.  Runs of operators over a list, as
    optimizers have them, hand on one for each tensor: those fuse side by side, as one kernel of the whole list."""
    return len(layers.read) * SMALLEST_LAYER <= max(work, 2 * SMALLEST_LAYER)


def _is_direct(node: fx.Node) -> bool:
    """True for a node that torch has to run: it asks for gradients of other parts' values, or takes one of these."""
    taken = node.args[0] if node.target is operator.getitem else node
    return isinstance(taken, fx.Node) and taken.target is torch.autograd.grad


def weight(node: fx.Node) -> int:
    """The number of operators that a node stands for: as many as a graph within the graph has.  A detached tensor
    counts none: handing on many of them costs more than having the part that makes them detach them."""
    if node.op != "get_attr":
        return 0 if node.target == "detach" else 1
    value: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return len(value.graph.nodes) if isinstance(value, fx.GraphModule) else 0


def _placeholder(graph: fx.Graph, like: fx.Node) -> fx.Node:
    made = graph.placeholder(like.name)
    made.meta = dict(like.meta)
    return made
