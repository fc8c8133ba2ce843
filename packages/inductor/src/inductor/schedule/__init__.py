"""The scheduler: from a graph of nests to a program of kernels, by fusion, loop order and memory planning.

```
nests and calls -> fusion (merge: may they?  profit: should they?) -> kernels (loop order) -> together (one start for
many) -> memory -> Program
```
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from inductor.deps import access, root
from inductor.ir.graph import Graph, Nest
from inductor.ir.program import Buffer, Program, Ref
from inductor.schedule.fusion import fuse
from inductor.schedule.kernels import make_kernel
from inductor.schedule.memory import Work, plan
from inductor.schedule.together import start_together


def schedule(graph: Graph) -> Program:
    """The program of a lowered graph."""
    return program_of(graph, work_of(graph))


def work_of(graph: Graph) -> list[Work]:
    """The kernels and calls of a graph in their order, before kernels are started together and memory is planned."""
    operations = fuse(graph)
    live = {root(output.name, graph.views) for output in graph.outputs if isinstance(output, Ref)}
    live |= graph.mutated | {buffer.name for buffer in graph.inputs if isinstance(buffer, Buffer)}
    work: list[Work] = []
    # Backwards, as a store is needed only if something behind it reads its buffer.
    for number in range(len(operations) - 1, -1, -1):
        operation = operations[number]
        if isinstance(operation, Nest):
            kernel = make_kernel(operation, _name(operation, number), graph.buffers, live)
            if kernel is None:
                continue
            work.append(kernel)
            live.update(argument.name for argument in kernel.arguments if argument.role != "out")
        else:
            work.append(operation)
            live |= access(operation, graph).reads
    work.reverse()
    return work


def program_of(graph: Graph, work: Sequence[Work]) -> Program:
    """The program of a graph's work."""
    constants = tuple(graph.buffers[name] for name in graph.constants)
    return Program(graph.name, graph.inputs, constants, plan(graph, start_together(graph, work)), graph.outputs)


SILENT = frozenset((
    "view", "unsafe_view", "reshape", "getitem", "expand", "permute", "t", "transpose", "unsqueeze", "squeeze", "slice",
    "select", "clone", "alias", "detach",
))  # fmt: skip
"""Operators that only move elements, and say little about a kernel in its name."""


def _name(nest: Nest, number: int) -> str:
    """A name that says what is inside: ``softmax_add_3``."""
    words = dict.fromkeys(re.sub(r"_\d+$", "", origin).strip("_") for origin in nest.origins)
    words = {word: None for word in words if word not in SILENT} or words
    return f"{'_'.join(list(words)[-4:]) or 'kernel'}_{number}"


__all__ = ["Work", "program_of", "schedule", "work_of"]
