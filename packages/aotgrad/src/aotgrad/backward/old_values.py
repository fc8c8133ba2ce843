"""Old values of small inputs that the function changes, saved for callers that differentiate gradients again.

The gradients are then computed once more from forward's inputs, and of one that was written to the old value is lost:
a buffer that moves with the batches, say.  Where forward saves nothing else that tells it, it saves the buffer.
Must not know: how gradients are computed again.
"""

from __future__ import annotations

import torch
from torch import fx

from aotgrad.backward.double_backward import lost_inputs
from aotgrad.graph_modules import recompile
from aotgrad.partitioning.partition import Half, Pair
from aotgrad.roles import Saved, Tangent
from aotgrad.tensors.symbols import size_hint
from aotgrad.torch_versions import aten
from aotgrad.tracing.joint import JointGraph

_SMALL = 1 << 16
"""The bytes up to which an input's old value is saved, though few ask for it; a larger one is reported as lost."""


def with_old_values(joint: JointGraph, pair: Pair) -> Pair:
    """`pair`, whose forward saves these, too."""
    if not any(mutation.data for mutation in joint.facts.mutations):
        return pair
    saved = {role.name for role in pair.forward.outputs if isinstance(role, Saved)}
    kept = [node for node in lost_inputs(joint, pair) if node.name not in saved and _bytes(node) <= _SMALL]
    return _saving(pair, kept) if kept else pair


def _bytes(node: fx.Node) -> int:
    value = node.meta["val"]
    return int(size_hint(value.numel())) * value.element_size() if isinstance(value, torch.Tensor) else _SMALL + 1


def _saving(pair: Pair, inputs: list[fx.Node]) -> Pair:
    """`pair` with copies of forward's inputs that backward takes, and does not read."""
    forward, backward = pair.forward.module.graph, pair.backward.module.graph
    roles = tuple(Saved(node.name) for node in inputs)
    given = {node.name: node for node in forward.find_nodes(op="placeholder")}
    output = forward.output_node()
    # Copied before anything else runs: the graph may write to its inputs.
    with forward.inserting_before(next(node for node in forward.nodes if node.op != "placeholder")):
        copies = [forward.call_function(aten.clone.default, (given[node.name],)) for node in inputs]
    place = next(node for node in backward.nodes if isinstance(node.meta.get("role"), Tangent))
    with backward.inserting_before(place):
        taken = [backward.placeholder(node.name) for node in inputs]
    for node, copy, unread in zip(inputs, copies, taken, strict=True):
        value = torch.empty_like(node.meta["val"])
        copy.meta, unread.meta = {"val": value, "phase": "forward"}, {"val": value, "phase": "forward"}
    for unread, role in zip(taken, roles, strict=True):
        unread.meta["role"] = role
    output.args = ((*output.args[0], *copies),)
    outputs = (*pair.forward.outputs, *roles)
    output.meta["roles"] = outputs
    recompile(pair.forward.module)
    recompile(pair.backward.module)
    first = next(place for place, role in enumerate(pair.backward.inputs) if isinstance(role, Tangent))
    inputs_of = (*pair.backward.inputs[:first], *roles, *pair.backward.inputs[first:])
    return Pair(
        Half(pair.forward.module, pair.forward.inputs, outputs),
        Half(pair.backward.module, inputs_of, pair.backward.outputs),
        pair.facts,
    )
