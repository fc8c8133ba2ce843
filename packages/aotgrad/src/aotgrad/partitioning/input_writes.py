"""Changed inputs written by the graph itself: `copy_` at its end, for compilers that can compute into them.

Otherwise a graph returns the new data and the wrapper copies it, which costs an optimizer as much as its step.
Must not know: how the copies are compiled.
"""

from __future__ import annotations

import torch
from torch import fx

from aotgrad.facts import Facts
from aotgrad.graph_modules import recompile
from aotgrad.partitioning.partition import Half
from aotgrad.tensors.functional import memory_of
from aotgrad.tracing.inputs import Signature


def write_inside(half: Half, signature: Signature, facts: Facts) -> tuple[Half, frozenset[int]]:
    """The half with `copy_` in place of returned updates where that is the same, and the inputs it writes."""
    graph = half.module.graph
    placeholders = graph.find_nodes(op="placeholder")
    given = {memory_of(node.meta["val"]) for node in placeholders if isinstance(node.meta["val"], torch.Tensor)}
    output = graph.output_node()
    returned = list(output.args[0])
    written: list[int] = []
    updates = [mutation for mutation in facts.mutations if mutation.data]
    for place, mutation in enumerate(updates):
        new = returned[place]
        # A write that autograd follows, or a new layout, is the wrapper's: the compiled graph runs below autograd.
        plain = not mutation.tracked and mutation.layout is None and not signature.inputs[mutation.input].members
        # Complex numbers are copied by torch's own operator, which counts the write that the wrapper counts.
        plain = plain and not placeholders[mutation.input].meta["val"].is_complex()
        if not plain or not isinstance(new, fx.Node) or memory_of(new.meta["val"]) in given:
            continue
        with graph.inserting_before(output):
            copy = graph.call_function(torch.ops.aten.copy_.default, (placeholders[mutation.input], new))
            copy.meta["val"] = placeholders[mutation.input].meta["val"]
        written.append(place)
    if not written:
        return half, frozenset()
    kept = [place for place in range(len(returned)) if place not in written]
    output.args = (tuple(returned[place] for place in kept),)
    recompile(half.module)
    outputs = tuple(half.outputs[place] for place in kept)
    return Half(half.module, half.inputs, outputs), frozenset(updates[place].input for place in written)
