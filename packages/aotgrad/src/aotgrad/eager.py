"""The plainest compiler of an ATen graph: its operators one after another, each value freed after its last use.

What `aot_eager` means, and what the tests run.
Must not know: forward, backward, and of roles but which inputs are tangents.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.errors import WrongArguments, kind
from aotgrad.roles import Tangent
from aotgrad.source import Source
from aotgrad.tensors.functional import memory_of
from aotgrad.torch_versions import OpOverload, op_of

Boxed = Callable[[list[Any]], Sequence[Any]]


def run_eagerly(gm: fx.GraphModule, example_inputs: Sequence[object], *, followed: bool = False) -> Boxed:
    """An FX compiler that compiles nothing: `gm`'s operators as straight-line Python.

    Where autograd follows them (``followed``), no value is overwritten: its own backward may have saved it.
    """
    if not isinstance(gm, fx.GraphModule):
        raise WrongArguments(f"aotgrad.run_eagerly takes a torch.fx.GraphModule, not {kind(gm)}")
    source = Source()
    nodes = list(gm.graph.nodes)
    dying = _last_uses(nodes)
    reused = set[fx.Node]() if followed else _sums_in_place(nodes, dying)
    inputs = [node.name for node in nodes if node.op == "placeholder"]
    source.add("def run(inputs):")
    if inputs:
        source.add(f"{', '.join(inputs)}, = inputs", 1)
    # The caller's list would keep every input alive until the end.
    source.add("inputs.clear()", 1)
    for node in nodes:
        line = f"{node.name} = {node.args[0]}.add_({node.args[1]})" if node in reused else _line(source, gm, node)
        if line is not None:
            source.add(line, 1)
        if dying.get(node):
            source.add(" = ".join(dead.name for dead in dying[node]) + " = None", 1)
    run: Boxed = source.build("graph")["run"]
    return run


def _line(source: Source, gm: fx.GraphModule, node: fx.Node) -> str | None:
    """The line of Python for a node; None for an input."""
    if node.op == "placeholder":
        return None
    if node.op == "output":
        return f"return {source.literal(node.args[0], _name)}"
    if node.op == "get_attr":
        return f"{node.name} = {source.constant(_attribute(gm, str(node.target)), 'attr')}"
    if node.target is operator.getitem:
        return f"{node.name} = {source.literal(node.args[0], _name)}[{source.literal(node.args[1], _name)}]"
    if node.op != "call_function":
        raise NotImplementedError(f"an ATen graph has no {node.op} nodes: {node.format_node()}")
    function = op_of(node.target) if isinstance(node.target, OpOverload) else node.target
    return f"{node.name} = {source.call(source.constant(function, 'op'), node.args, node.kwargs.items(), _name)}"


def _name(value: object) -> str | None:
    return value.name if isinstance(value, fx.Node) else None


def _attribute(gm: fx.GraphModule, path: str) -> Any:
    value: Any = gm
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _last_uses(nodes: Sequence[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """For each node, the values that nobody reads after it."""
    dying: dict[fx.Node, list[fx.Node]] = {}
    seen: set[fx.Node] = set()
    for node in reversed(nodes):
        fresh = [value for value in dict.fromkeys([*node.all_input_nodes, node]) if value not in seen]
        seen.update(fresh)
        if node.op != "output":
            dying[node] = [value for value in fresh if value.op != "output"]
    return dying


def _sums_in_place(nodes: Sequence[fx.Node], dying: Mapping[fx.Node, Sequence[fx.Node]]) -> set[fx.Node]:
    """Sums that may overwrite their first operand, which nobody else reads, as autograd adds up gradients.

    Others that are returned must not have been written to, as their versions are seen.  Backward may be run for several
    tangents at once (``is_grads_batched``), and a value that depends on one does not fit into one that does not.
    """
    behind = _tangents_behind(nodes)
    sharing = Counter(map(_memory, nodes))
    returned = {_memory(node) for node in nodes[-1].all_input_nodes if node.meta.get("phase") != "backward"}
    return {
        node
        for node in nodes
        if node.target is torch.ops.aten.add.Tensor
        and not node.kwargs
        and node.args[0] in dying.get(node, ())
        and node.args[0] is not node.args[1]
        and _is_own(node.args[0], sharing)
        and _memory(node) not in returned
        and _kind(node.args[0]) == _kind(node) is not None
        and isinstance(node.args[1], fx.Node)
        # For batched tangents: a sum with a batch does not fit into a tensor without.
        and behind[node.args[1]] <= behind[node.args[0]]
    }


def _tangents_behind(nodes: Sequence[fx.Node]) -> dict[fx.Node, frozenset[fx.Node]]:
    """For each node, the tangents that it depends on."""
    behind: dict[fx.Node, frozenset[fx.Node]] = {}
    for node in nodes:
        own = frozenset({node}) if isinstance(node.meta.get("role"), Tangent) else frozenset()
        behind[node] = own.union(*(behind[each] for each in node.all_input_nodes))
    return behind


def _memory(node: fx.Node) -> int | None:
    value = node.meta.get("val")
    return memory_of(value) if isinstance(value, torch.Tensor) else None


_AS_GIVEN = frozenset({torch.ops.aten.lift.default, torch.ops.aten.lift_fresh.default})
"""Operators that return the graph's own constant, which the next call reads as well; fake tensors do not show that."""


def _is_own(node: Any, sharing: Mapping[int | None, int]) -> bool:
    """True if an operator of torch made this value in memory that no other value has."""
    made = isinstance(node, fx.Node) and node.op == "call_function" and sharing[_memory(node)] == 1
    return made and node.target not in _AS_GIVEN and getattr(node.target, "namespace", None) == "aten"


def _kind(node: Any) -> Any:
    """The dtype, sizes, strides and device of a value; None where sizes vary."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or any(not isinstance(size, int) for size in value.shape):
        return None
    return value.dtype, value.shape, value.stride(), value.device
