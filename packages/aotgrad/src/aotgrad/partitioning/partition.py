"""The partition: the joint graph becomes two.  Forward returns the values that backward needs; by default those that
eager would save.

Which values cross is a set of nodes; cutting out the two graphs, given that set, is the same for every strategy.
Must not know: how a strategy chooses, how the graphs are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from aotgrad.errors import WrongArguments, kind
from aotgrad.facts import Facts
from aotgrad.graph_modules import graph_module
from aotgrad.random_operators import draws
from aotgrad.recording.whole_operators import WHOLE
from aotgrad.roles import MAY_RAISE, AliasBase, Gradient, InputRole, OutputRole, Primal, Saved, SavedSize, Tangent
from aotgrad.tensors.functional import memory_of
from aotgrad.tensors.symbols import defining_nodes, is_size, may_divide_by_zero, size_hint, symbols_of
from aotgrad.torch_versions import OpOverload, schema_of
from aotgrad.tracing.joint import JointGraph


@dataclass(frozen=True, slots=True)
class Half:
    """One of the two graphs, with the role of each of its inputs and outputs."""

    module: fx.GraphModule
    inputs: tuple[InputRole, ...]
    outputs: tuple[OutputRole, ...]

    @property
    def example_inputs(self) -> list[Any]:
        return [node.meta["val"] for node in self.module.graph.find_nodes(op="placeholder")]


@dataclass(frozen=True, slots=True)
class Pair:
    """Forward, backward, and what the wrapper must restore around them."""

    forward: Half
    backward: Half
    facts: Facts

    @property
    def saved_bytes(self) -> int:
        """Bytes that stay alive between forward and backward, each memory counted once; inputs are not counted."""
        graph = self.forward.module.graph
        held = {memory_of(node.meta["val"]) for node in graph.find_nodes(op="placeholder") if not is_size(node)}
        kept = {}
        for node, role in zip(graph.output_node().args[0], self.forward.outputs, strict=True):
            if isinstance(role, Saved):
                kept[memory_of(node.meta["val"])] = size_hint(node.meta["val"].untyped_storage().nbytes())
        return sum(size for memory, size in kept.items() if memory not in held)


Partition = Callable[[JointGraph], Pair]


_IS_COPY = "copied before it is overwritten"  # in the `meta` of a node


def default_partition(joint: JointGraph) -> Pair:
    """Forward computes what the program computes, and saves what backward reads, as eager does."""
    return cut(as_joint(joint), recomputed=frozenset())


def as_joint(given: object) -> JointGraph:
    """The joint graph that a partition was given; raises for anything else, for those who call one by hand."""
    if isinstance(given, JointGraph):
        return given
    raise WrongArguments(
        f"a partition takes the joint graph of forward and backward, not {kind(given)}: pass it as `partition`, as in "
        "aotgrad.function(f, forward=compiler, partition=aotgrad.min_cut_partition)"
    )


def needed(values: Iterable[object]) -> set[fx.Node]:
    """The nodes that `values` depend on, themselves included."""
    found: set[fx.Node] = set()
    pending = [value for value in values if isinstance(value, fx.Node)]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(node.all_input_nodes)
    return found


def runs_in_backward(node: fx.Node) -> bool:
    """True for a node recorded while autograd ran backward.  Sizes never are: they cost nothing to carry over."""
    return node.op == "call_function" and node.meta.get("phase") == "backward" and not is_size(node)


def cut(joint: JointGraph, recomputed: frozenset[fx.Node]) -> Pair:
    """The two graphs; forward nodes in `recomputed` run again in backward instead of being saved."""
    split = sum(not isinstance(role, Gradient) for role in joint.outputs)
    results, gradients = joint.values[:split], joint.values[split:]
    keep = needed(gradients)
    keep.update(needed(node for node in joint.graph.nodes if must_run(node) and runs_in_backward(node)))
    backward = _just_in_time([n for n in joint.graph.nodes if n in keep and runs_in_backward(n)], gradients, recomputed)
    if joint.dynamic:
        backward = [*_arithmetic_of_sizes(joint, backward), *backward]
    tangents = [node for node in joint.graph.find_nodes(op="placeholder") if isinstance(node.meta["role"], Tangent)]
    saved = _saved(backward, gradients, set(backward))
    defining = _defining_symbols(joint, [*backward, *saved, *tangents]) if joint.dynamic else []
    # Sizes first: graphs read them before the tensors that they describe.
    sizes = dict.fromkeys([*defining, *filter(is_size, saved)])
    saved = [*sizes, *(node for node in saved if not is_size(node))]
    roles = [SavedSize(node.name) if is_size(node) else Saved(node.name) for node in saved]
    forward_half = _forward(joint, results, joint.outputs[:split], saved, roles)
    inputs = [*zip(saved, roles, strict=True), *((node, node.meta["role"]) for node in tangents)]
    backward_half = _extract(joint.root, inputs, backward, gradients, joint.outputs[split:])
    _lay_out_as_copied(forward_half, backward_half)
    return Pair(forward_half, backward_half, joint.facts)


def _just_in_time(
    backward: Sequence[fx.Node], gradients: Sequence[object], recomputed: frozenset[fx.Node]
) -> list[fx.Node]:
    """`backward` with each recomputed node right before its first use, so that few of them are alive at a time."""
    ordered: dict[fx.Node, None] = {}

    def place(node: fx.Node) -> None:
        pending = [node]
        while pending:
            waiting = [s for s in pending[-1].all_input_nodes if s in recomputed and s not in ordered]
            if waiting:
                pending.extend(waiting)
            else:
                ordered[pending.pop()] = None

    for node in backward:
        place(node)
    # A gradient may itself be a recomputed value that no other node reads.
    for gradient in gradients:
        if gradient in recomputed and gradient not in ordered:
            place(gradient)
    return list(ordered)


def _arithmetic_of_sizes(joint: JointGraph, backward: Sequence[fx.Node]) -> list[fx.Node]:
    """The arithmetic on sizes that backward repeats, from the sizes that tensors have; not what may raise, which
    forward does, as it can still be run in another way."""
    read = needed(source for node in backward for source in node.all_input_nodes if is_size(source))
    again: dict[fx.Node, None] = {}
    for node in filter(_is_arithmetic, joint.graph.nodes):
        known = all(source in again or not _is_arithmetic(source) for source in node.all_input_nodes)
        if node in read and known and not may_divide_by_zero(node):
            again[node] = None
    return list(again)


def _is_arithmetic(node: fx.Node) -> bool:
    """True for a size that is computed from sizes; a tensor that is made of sizes may be random numbers."""
    given = node.all_input_nodes
    return node.op == "call_function" and is_size(node) and bool(given) and all(map(is_size, given))


def _saved(backward: Sequence[fx.Node], gradients: Sequence[object], inside: set[fx.Node]) -> list[fx.Node]:
    """The values that backward reads and does not compute, in the order of first use."""
    reads = [*(source for node in backward for source in node.all_input_nodes), *gradients]
    return [
        node
        for node in dict.fromkeys(reads)
        if node not in inside and not isinstance(node.meta.get("role"), Tangent) and node.op != "get_attr"
    ]


def _defining_symbols(joint: JointGraph, of_backward: Sequence[fx.Node]) -> list[fx.Node]:
    """The nodes that tell every symbol in the layouts of backward's values, so that its graph stands alone."""
    mentioned = set[Any]().union(*map(symbols_of, of_backward))
    forward = [n for n in joint.graph.nodes if not runs_in_backward(n) and not isinstance(n.meta.get("role"), Tangent)]
    return defining_nodes(mentioned, forward)


def _forward(
    joint: JointGraph, results: Sequence[Any], roles: Sequence[OutputRole], saved: Sequence[fx.Node], saved_roles: Any
) -> Half:
    values = [*results, *saved]
    keep = needed([*values, *(n for n in joint.graph.nodes if must_run(n) and not runs_in_backward(n))])
    inputs = [n for n in joint.graph.find_nodes(op="placeholder") if not isinstance(n.meta["role"], Tangent)]
    body = [node for node in joint.graph.nodes if node in keep and node.op not in ("placeholder", "output")]
    return _extract(joint.root, [(n, n.meta["role"]) for n in inputs], body, values, [*roles, *saved_roles])


def inference(joint: JointGraph) -> Half:
    """The joint graph of a program that is not differentiated, as the one graph."""
    return _forward(joint, joint.values, joint.outputs, [], [])


def must_run(node: fx.Node) -> bool:
    """True for operators that count even unread: they move the random state, check something, or return nothing."""
    return node.op == "call_function" and (draws(node.target) or has_effect(node) or _may_raise(node))


def _may_raise(node: fx.Node) -> bool:
    """True for operators that may refuse their operands' contents; not for views of their results, which raise nothing
    more."""
    if not node.meta.get(MAY_RAISE) or not isinstance(node.target, OpOverload):
        return False
    return not any(result.alias_info for result in schema_of(node.target).returns)


def has_effect(node: fx.Node) -> bool:
    """True for an operator that does something besides its result; one that returns nothing was called for that
    alone."""
    gives_nothing = isinstance(node.target, OpOverload) and not schema_of(node.target).returns
    return gives_nothing or node.is_impure()


def _extract(
    root: torch.nn.Module,
    inputs: Sequence[tuple[fx.Node, InputRole]],
    body: Sequence[fx.Node],
    values: Sequence[Any],
    roles: Sequence[OutputRole],
) -> Half:
    """A graph of its own: `inputs` as placeholders, the nodes of `body` in order, `values` returned."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node, role in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = {**_notes(node), "role": role}
    constants = dict.fromkeys(
        n for b in [*body, *values] for n in _sources(b) if n.op == "get_attr" and n not in copies
    )
    for node in [*constants, *(node for node in body if node.op != "get_attr")]:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        copies[node].meta = _notes(node)
    # What backward reads must be saved before the caller's tensor gets its new data, with which it shares memory.
    overwritten = {
        memory_of(n.meta["val"]) for n, role in inputs if isinstance(role, (Primal, AliasBase)) and role.mutated
    }
    returned = [
        _copied(graph, copies[value])
        if isinstance(role, Saved) and memory_of(value.meta["val"]) in overwritten
        else copies[value]
        for value, role in zip(values, roles, strict=True)
    ]
    output = graph.output(tuple(returned))
    output.meta["roles"] = tuple(roles)
    return Half(graph_module(root, graph), tuple(role for _, role in inputs), tuple(roles))


def _notes(node: fx.Node) -> dict[str, object]:
    """The metadata of a node, but for what only gradients of gradients look at."""
    return {key: value for key, value in node.meta.items() if key != WHOLE}


def _lay_out_as_copied(forward: Half, backward: Half) -> None:
    """Gives backward's inputs the dense layout of the copies that forward saves."""
    returned = forward.module.graph.output_node().args[0]
    pairs = zip(forward.outputs, returned, strict=True)
    copies = {role.name: node for role, node in pairs if isinstance(role, Saved) and node.meta.get(_IS_COPY)}
    for node in backward.module.graph.find_nodes(op="placeholder"):
        role = node.meta.get("role")
        if isinstance(role, Saved) and role.name in copies:
            node.meta["val"] = torch.empty_like(node.meta["val"])


def _copied(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """A copy of a value that backward needs as it was before the caller's tensor takes its new data."""
    copy = graph.call_function(torch.ops.aten.clone.default, (node,))
    copy.meta = {**node.meta, "val": torch.empty_like(node.meta["val"]), _IS_COPY: True}
    copy.meta.pop("role", None)
    return copy


def _sources(node: fx.Node) -> list[fx.Node]:
    return [node, *node.all_input_nodes]
