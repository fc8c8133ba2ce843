"""``inductor.compile``: one FX graph in, something to call out."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule

from inductor import pipeline, trace
from inductor.compiled import CompiledGraph, Report
from inductor.counting import metrics
from inductor.errors import BuildError, CacheError, UnsupportedGraph
from inductor.options import Options
from inductor.rewrites.layouts import as_eager_lays

_numbers = itertools.count()


def compile(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Options | Mapping[str, object] | None = None,
    tell: Callable[[str], None] | None = None,
) -> CompiledGraph:
    """Compiles a graph of ATen or torch-level operators for inputs like the examples (which may be fake).

    An operator without a kernel of ours runs as it is.  A graph that cannot be built at all, say because there is no
    C++ compiler, runs operator by operator with a warning that says why, unless ``options.fallback`` is off.

    ``tell`` hears what is being done: the name of each stage, and how far building the kernels has come.
    """
    chosen = Options.read(options)
    name = f"graph_{next(_numbers)}"
    work = pipeline.Work(name, gm, example_inputs, chosen, tell)
    try:
        compiled = trace.run(work, chosen.trace) if chosen.trace else pipeline.run(work)
    except (BuildError, CacheError, UnsupportedGraph) as error:
        if not chosen.fallback:
            raise
        warnings.warn(f"{name} runs operator by operator: {error}", RuntimeWarning, stacklevel=2)
        compiled = _uncompiled(gm, str(error))
    metrics.add(compiled.report)
    return compiled


def _uncompiled(gm: GraphModule, reason: str) -> CompiledGraph:
    """The graph as it came."""

    def call(inputs: list[Any]) -> tuple[Any, ...]:
        arguments = tuple(inputs)
        inputs.clear()
        outputs = gm.forward(*arguments)  # calling the module would print the user's error a second time
        return tuple(outputs) if isinstance(outputs, list | tuple) else (outputs,)

    return CompiledGraph(as_eager_lays(gm, call), gm.code, None, Report(failure=reason))
