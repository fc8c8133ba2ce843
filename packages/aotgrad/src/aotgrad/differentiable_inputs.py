"""The inputs of a compiled graph that autograd follows, for compilers that treat parameters unlike other inputs.

Must not know: what the compilers do.
"""

from __future__ import annotations

from torch import fx

from aotgrad.roles import Primal


def differentiable_inputs(gm: fx.GraphModule) -> list[int]:
    """The positions of the inputs that the caller passes in and that require grad; none where aotgrad did not make the
    graph."""
    roles = (node.meta.get("role") for node in gm.graph.find_nodes(op="placeholder"))
    return [position for position, role in enumerate(roles) if isinstance(role, Primal) and role.requires_grad]
