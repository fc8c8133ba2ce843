"""Scratch memory: small temporaries of the CPU that share one allocation.

An optimizer's step has two numbers for each parameter, and allocating them takes longer than computing them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from inductor import costs
from inductor.ir.program import Allocate, Bind, Buffer, Call, Program, Ref, Scratch, View
from inductor.torch_versions import pytree


def scratch_of(program: Program) -> Scratch | None:
    """The place in bytes of each small temporary that only kernels touch; None where there are fewer than two."""
    others = set(_seen_by_others(program))
    owners: dict[str, list[Buffer]] = {}
    for step in program.steps:
        # Buffers that take one another's memory over form a chain and keep one place.
        if isinstance(step, Allocate):  # what takes memory over may find there what it reads
            chain = owners.get(step.reuse, []) if step.reuse is not None else []
            if step.reuse is not None and not chain:
                others.add(step.buffer.name)  # the memory is a library's
            chain.append(step.buffer)
            owners[step.buffer.name] = chain
    chains = {id(chain): chain for chain in owners.values()}.values()
    small = [chain for chain in chains if all(_is_small(one) and one.name not in others for one in chain)]
    if len(small) < 2:
        return None
    places: dict[str, int] = {}
    end = 0
    for chain in small:
        places.update((buffer.name, end) for buffer in chain)
        end += max(-(-_bytes(buffer) // costs.CPU.line) * costs.CPU.line for buffer in chain)
    # As large as if the last one were of the largest size: kernels may read a whole vector at its end.
    return Scratch(tuple(places.items()), max(places.values()) + costs.CPU.largest_scratch)


def _seen_by_others(program: Program) -> Iterator[str]:
    """The buffers that have to be tensors, because something other than kernels takes them."""
    for output in program.outputs:
        if isinstance(output, Ref):
            yield output.name
    for step in program.steps:
        if isinstance(step, View):
            yield step.base
        elif isinstance(step, Bind):
            yield step.source
        elif isinstance(step, Call):
            yield from step.into
            leaves = pytree.tree_leaves((step.args, [value for _, value in step.kwargs]))
            yield from (leaf.name for leaf in leaves if isinstance(leaf, Ref))


def _is_small(buffer: Buffer) -> bool:
    known = all(size.as_int() is not None for size in (*buffer.sizes, *buffer.strides))
    return known and buffer.device.type == "cpu" and 0 < _bytes(buffer) <= costs.CPU.largest_scratch


def _bytes(buffer: Buffer) -> int:
    return math.prod(size.as_int() or 0 for size in buffer.sizes) * buffer.dtype.itemsize
