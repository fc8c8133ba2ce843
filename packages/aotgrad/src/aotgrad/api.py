"""The public entry points: a graph, a function, a module.

Must not know: stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx
from torch._ops import OpOverload

from aotgrad.partition import Partition, default_partition
from aotgrad.pipeline import Compiler, Options, compile_program, graph_program


def compile(  # noqa: A001 - the name says what it does, as re.compile does
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    forward: Compiler,
    backward: Compiler | None = None,
    inference: Compiler | None = None,
    partition: Partition = default_partition,
    decompositions: Mapping[OpOverload, Callable[..., Any]] | None = None,
    dynamic: bool = False,
) -> Callable[..., Sequence[Any]]:
    """Compile a torch-level graph whose parameters and buffers are inputs.

    `example_inputs` are real or fake tensors and integers.  The result holds for inputs of the same layout, dtype,
    device, `requires_grad` and aliasing, under the same grad mode: guards are the caller's.
    """
    options = Options(forward, backward, inference, partition, decompositions, dynamic)
    return compile_program(graph_program(gm), example_inputs, options)
