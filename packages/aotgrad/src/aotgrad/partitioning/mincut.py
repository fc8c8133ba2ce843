"""The min-cut partition: cheap operators run again in backward where that saves memory.

Each forward value is an edge whose capacity is what saving it costs.  Everything that backward can be computed from
without saving lies on the source side, everything that backward reads on the sink side; the cheapest cut between
them is the set of values to save.
Must not know: how graphs are cut out; `partition.cut` does that.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import cache

import torch
from torch import fx

from aotgrad.partitioning.maxflow import INFINITE, FlowNetwork
from aotgrad.partitioning.partition import Pair, as_joint, cut, has_effect, needed, runs_in_backward
from aotgrad.random_operators import draws
from aotgrad.roles import Gradient, Primal, Result, UpdatedInput
from aotgrad.tensors.functional import memory_of
from aotgrad.tensors.symbols import is_size, size_hint
from aotgrad.tensors.views import root_of
from aotgrad.torch_versions import OpOverload, aten
from aotgrad.tracing.joint import JointGraph

# Operators that read their inputs more than once, or reduce them: their neighbours cannot be computed in the same pass
# over memory, so that running them twice costs a pass of its own.
REDUCING = frozenset(
    packet
    for packet in (
        aten._softmax, aten._log_softmax, aten._safe_softmax, aten.logsumexp, aten.native_layer_norm,
        aten.native_batch_norm, aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional,
        aten._native_batch_norm_legit_no_training,
        aten.cudnn_batch_norm, aten.native_group_norm, aten.sum, aten.mean, aten.prod, aten.var, aten.var_mean,
        aten.std, aten.amax, aten.amin, aten.max, aten.min, aten.argmax, aten.argmin, aten.linalg_vector_norm,
    )
)  # fmt: skip

# Operators whose work is not bounded by reading their inputs a few times: never run twice either.
EXPENSIVE = frozenset(
    packet
    for packet in (
        aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten.addbmm, aten.mv, aten.addmv, aten.dot,
        aten.convolution, aten._scaled_dot_product_flash_attention_for_cpu, aten._scaled_dot_product_flash_attention,
        aten._scaled_dot_product_efficient_attention, aten._scaled_dot_product_cudnn_attention,
        aten.sort, aten.topk, aten.cumsum, aten.cumprod, aten.logcumsumexp, aten._cdist_forward,
        aten._fft_r2c, aten._fft_c2r, aten._fft_c2c, aten.upsample_bicubic2d, aten.grid_sampler_2d,
        aten.max_pool2d_with_indices, aten._adaptive_avg_pool2d, aten.avg_pool2d,
    )
)  # fmt: skip


def min_cut_partition(joint: JointGraph) -> Pair:
    """The pair that saves the fewest bytes from which backward can be computed by cheap operators."""
    return cut(as_joint(joint), recomputed=choose_recomputed(joint))


def choose_recomputed(joint: JointGraph) -> frozenset[fx.Node]:
    """The forward nodes that backward computes again."""
    gradients = [v for v, role in zip(joint.values, joint.outputs, strict=True) if isinstance(role, Gradient)]
    keep = needed(gradients)
    backward = [node for node in joint.graph.nodes if node in keep and runs_in_backward(node)]
    forward = [node for node in joint.graph.nodes if node in keep and _is_forward(node)]
    read = {source for node in backward for source in node.all_input_nodes if _is_forward(source)}
    read.update(node for node in gradients if _is_forward(node))
    if not read:
        return frozenset()
    saved = _saved_by_cut(forward, read, _left_alone_by_eager(joint, read))
    return frozenset(_between(read, saved))


def _is_forward(node: fx.Node) -> bool:
    """True for a tensor that forward computes or is given."""
    given = node.op == "placeholder" and node.meta.get("phase") == "forward"
    return (given or (node.op == "call_function" and not runs_in_backward(node))) and not is_size(node)


def _left_alone_by_eager(joint: JointGraph, read: set[fx.Node]) -> set[int]:
    """The memories of tensors that the caller has and autograd does not hold: the caller may change them before
    backward."""
    placeholders = joint.graph.find_nodes(op="placeholder")
    given = [node for node in placeholders if _may_be_changed(node.meta["role"]) and not is_size(node)]
    returned = zip(joint.values, joint.outputs, strict=True)
    results = [node for node, role in returned if isinstance(role, (Result, UpdatedInput))]
    held = {memory_of(node.meta["val"]) for node in read if _is_one(node)}
    return {memory_of(node.meta["val"]) for node in [*given, *results]} - held


def _is_one(node: fx.Node) -> bool:
    return isinstance(node.meta["val"], torch.Tensor)


def _may_be_changed(role: object) -> bool:
    return isinstance(role, Primal) and not role.parameter and not role.mutated


def _saved_by_cut(forward: Sequence[fx.Node], read: set[fx.Node], left_alone: set[int]) -> set[fx.Node]:
    """The values on the edges of the minimum cut."""
    number = {node: 2 + 2 * index for index, node in enumerate(forward)}
    network = FlowNetwork(2 + 2 * len(forward))
    source, sink = 0, 1
    for node in forward:
        # A node is an edge from its entry to its exit: cutting that edge is saving the value.
        into, out = number[node], number[node] + 1
        network.add_edge(into, out, _price(node, left_alone))
        if not _may_run_again(node):
            network.add_edge(source, into, INFINITE)
        for user in node.users:
            if user in number:
                # Only values are cut, not their uses: a saved value serves all its users.
                network.add_edge(out, number[user], INFINITE)
        if node in read:
            network.add_edge(out, sink, INFINITE)
    behind = network.sink_side(source, sink)
    return {node for node in forward if number[node] not in behind and number[node] + 1 in behind}


def _price(node: fx.Node, left_alone: set[int]) -> int:
    """The cost of saving this value, in bytes; the whole of an operator's tuple cannot be saved."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return INFINITE
    if memory_of(value) in left_alone:
        return INFINITE
    if node.op == "placeholder" and not getattr(node.meta["role"], "mutated", False):
        return 1  # the caller holds it anyway
    if root_of(node).op == "placeholder":
        return 2
    return 2 * max(1, size_hint(value.numel())) * value.element_size()


def _may_run_again(node: fx.Node) -> bool:
    if node.op == "placeholder":
        return False
    if node.target is operator.getitem:
        return True
    return is_cheap(node.target) and not draws(node.target) and not has_effect(node)


@cache
def is_cheap(target: object) -> bool:
    """True for operators that may run twice: only ATen operators, whose cost is known, and not those of the lists
    above."""
    if not isinstance(target, OpOverload) or target.namespace not in ("aten", "prims"):
        return False
    if target.overloadpacket in EXPENSIVE or target.overloadpacket in REDUCING:
        return False
    return not draws(target)


def _between(read: Iterable[fx.Node], saved: set[fx.Node]) -> set[fx.Node]:
    """The nodes to compute again to get from `saved` to `read`."""
    again: set[fx.Node] = set()
    pending = [node for node in read if node not in saved]
    while pending:
        node = pending.pop()
        if node in again or node.op != "call_function":
            continue
        again.add(node)
        pending.extend(s for s in node.all_input_nodes if s not in saved and not is_size(s) and s.op == "call_function")
    return again
