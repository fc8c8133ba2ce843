"""Tidying the joint graph: each pass takes one and returns one, and keeps the caller's results as they are.

Must not know: partitioning, compilers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import fx

from aotgrad.joint import JointGraph
from aotgrad.partition import must_run

JointPass = Callable[[JointGraph], JointGraph]


def drop_dead_code(joint: JointGraph) -> JointGraph:
    """Nodes that nobody reads go, except random draws and checks, which count by themselves."""
    graph = joint.graph
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op in ("call_function", "get_attr") and not must_run(node):
            graph.erase_node(node)
    return joint


JOINT_PASSES: Sequence[JointPass] = (drop_dead_code,)
