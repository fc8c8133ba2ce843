"""Tidying the joint graph: each pass takes one and returns one, and keeps the caller's results as they are.

Must not know: partitioning, compilers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from aotgrad.joint import JointGraph
from aotgrad.partition import must_run

aten = torch.ops.aten

JointPass = Callable[[JointGraph], JointGraph]


def drop_dead_code(joint: JointGraph) -> JointGraph:
    """Nodes that nobody reads go, except random draws and checks, which count by themselves."""
    graph = joint.graph
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op in ("call_function", "get_attr") and not must_run(node):
            graph.erase_node(node)
    return joint


def forget_unread_statistics(joint: JointGraph) -> JointGraph:
    """Backward of batch norm in training takes the running statistics and ignores them: they need not be saved."""
    for node in joint.graph.find_nodes(op="call_function", target=aten.native_batch_norm_backward.default):
        grad, value, weight, _, _, *rest = node.args
        if rest[2]:
            node.args = (grad, value, weight, None, None, *rest)
    return joint


JOINT_PASSES: Sequence[JointPass] = (forget_unread_statistics, drop_dead_code)
