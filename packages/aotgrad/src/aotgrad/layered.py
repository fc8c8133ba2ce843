"""Compilation by layers: equal layers of a graph are compiled once, any other graph as a whole.

Must not know: how layers are found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import fx

from aotgrad.calling.wrapper import Call
from aotgrad.errors import AotgradError
from aotgrad.facts import Facts
from aotgrad.pipeline import Options, compile_program, graph_program
from aotgrad.plans import StackOf
from aotgrad.stacks.program import compile_parts, stack_call
from aotgrad.stacks.split import Part, Split, split
from aotgrad.tensors.subclasses import is_wrapped
from aotgrad.tracing.inputs import Signature


def compile_graph(gm: fx.GraphModule, example_inputs: Sequence[object], options: Options, *, layers: bool) -> Call:
    """The graph as a callable; with `layers`, in parts if it has equal ones.  ``call.stacks`` has the number of layers
    and of operators per layer of each stack."""
    found = _layers_of(gm, example_inputs, images=options.lay_out is None) if layers else None
    call = None if found is None else _in_parts(gm, found, options)
    if call is None:
        return compile_program(graph_program(gm), example_inputs, options)[0]
    return call


def _layers_of(gm: fx.GraphModule, example_inputs: Sequence[object], *, images: bool) -> Split | None:
    """The graph in layers; None unless its nodes tell their values, of these very example inputs."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    described = [node.meta.get("example_value") for node in placeholders]
    if len(described) != len(example_inputs) or any(a is not b for a, b in zip(described, example_inputs, strict=True)):
        return None
    if any(map(is_wrapped, example_inputs)):
        return None
    return split(gm, images=images)


def _in_parts(gm: fx.GraphModule, found: Split, options: Options) -> Call | None:
    def compile_part(part: Part, examples: list[object], insist: Callable[[Signature, Facts], None]) -> Call:
        with torch.set_grad_enabled(part.grad):
            return compile_program(graph_program(part.module), examples, replace(options, insist=insist))[0]

    try:
        plan, parts = compile_parts(gm, found, compile_part)
    except AotgradError:  # the whole may do what its parts may not
        return None
    call = stack_call(plan, parts)
    if options.describable:
        call.made_of = StackOf(plan, parts)  # type: ignore[attr-defined]
    return call
