"""Checks between stages that a graph is what its stage promises; a failure is a bug of ours or of a decomposition.

Must not know: how graphs are made.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from aotgrad.errors import BadGraph
from aotgrad.partitioning.partition import Half, Pair
from aotgrad.roles import AliasBase, Gradient, Primal, Saved, SavedSize, Size, Tangent
from aotgrad.torch_versions import OpOverload, schema_of
from aotgrad.tracing.joint import JointGraph


def verify_joint(joint: JointGraph) -> None:
    """Checks that the joint graph is functional and ordered, and that every placeholder and output has a role."""
    _verify_graph(joint.graph, "the joint graph")
    _require(len(joint.values) == len(joint.outputs), "the joint graph returns a value without a role")
    for node in joint.graph.find_nodes(op="placeholder"):
        _require("role" in node.meta, f"input {node} of the joint graph has no role")
    for role, value in zip(joint.outputs, joint.values, strict=True):
        # Only gradients may depend on a tangent: forward runs before any has arrived.
        tangent_free = not isinstance(role, Gradient)
        _require(
            tangent_free <= (value.meta.get("phase", "forward") == "forward"),
            f"forward output {value} depends on a tangent",
        )


def verify_pair(pair: Pair) -> None:
    """Checks that each half stands alone, and that backward takes what forward saves."""
    verify_half(pair.forward, "the forward graph", (Primal, AliasBase, Size))
    verify_half(pair.backward, "the backward graph", (Saved, SavedSize, Tangent))
    given = [role for role in pair.forward.outputs if isinstance(role, (Saved, SavedSize))]
    taken = [role for role in pair.backward.inputs if isinstance(role, (Saved, SavedSize))]
    _require(given == taken, "backward does not take what forward saves")
    _require(all(isinstance(role, Gradient) for role in pair.backward.outputs), "backward returns more than gradients")


def verify_half(half: Half, name: str, inputs: tuple[type, ...]) -> None:
    """Checks one graph, whose inputs may only have roles of these types."""
    _verify_graph(half.module.graph, name)
    placeholders = half.module.graph.find_nodes(op="placeholder")
    _require(len(placeholders) == len(half.inputs), f"{name} has an input without a role")
    _require(all(isinstance(role, inputs) for role in half.inputs), f"{name} has an input of a foreign role")
    returned = half.module.graph.output_node().args[0]
    _require(isinstance(returned, Sequence) and len(returned) == len(half.outputs), f"{name} returns too many values")


def _verify_graph(graph: fx.Graph, name: str) -> None:
    seen: set[fx.Node] = set()
    for node in graph.nodes:
        if not seen.issuperset(node.all_input_nodes):
            raise BadGraph(f"{name} uses a value before it is computed, at {node.format_node()}")
        seen.add(node)
        if node.op == "call_function":
            _require("val" in node.meta, f"{name} does not know what {node.name} is")
            if _mutates(node):
                raise BadGraph(f"{name} mutates: {node.format_node()}, from {node.meta.get('source')}")


def _mutates(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise BadGraph(otherwise)
