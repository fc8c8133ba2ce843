"""``inductor.compile``: one FX graph in, something to call out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from torch.fx import GraphModule

from inductor import pipeline, trace
from inductor.calling import calling_of, check_list, with_constants
from inductor.compiled import CompiledGraph
from inductor.complaints import complain
from inductor.errors import BuildError, CacheError, InductorError, NotAGraph, UnsupportedGraph
from inductor.exported import CompiledProgram, Program, compile_exported, is_program
from inductor.given import examples_of, graph_of
from inductor.options import Options
from inductor.report import Report
from inductor.rewrites.layouts import as_eager_lays
from inductor.state import STATE
from inductor.torch_versions import INSIDES


@overload
def compile(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Options | Mapping[str, object] | None = ...,
    tell: Callable[[str], None] | None = ...,
) -> CompiledGraph: ...
@overload
def compile(
    gm: Program,
    example_inputs: Any = ...,
    *,
    options: Options | Mapping[str, object] | None = ...,
    tell: Callable[[str], None] | None = ...,
) -> CompiledProgram: ...


def compile(
    gm: GraphModule | Program,
    example_inputs: Any = None,
    *,
    options: Options | Mapping[str, object] | None = None,
    tell: Callable[[str], None] | None = None,
) -> CompiledGraph | CompiledProgram:
    """Compiles a graph of ATen or torch-level operators for inputs like the examples (which may be fake).

    An operator without a kernel of ours runs as it is.  A graph that cannot be built at all, say because there is no
    C++ compiler, runs operator by operator with a warning that says why, unless ``options.fallback`` is off.

    A program of ``torch.export`` needs no examples, and is called as the program is.

    ``tell`` hears what is being done: the name of each stage, and how far building the kernels has come.
    """
    chosen = Options.read(options)
    if not isinstance(gm, GraphModule) and is_program(gm):
        return compile_exported(gm, lambda graph, examples: _compile(graph, examples, chosen, tell))
    return _compile(graph_of(gm), example_inputs, chosen, tell)


def _compile(gm: GraphModule, given: object, chosen: Options, tell: Callable[[str], None] | None) -> CompiledGraph:
    name = f"graph_{next(STATE.graph_numbers)}"
    examples = examples_of(name, gm, given)
    work = pipeline.Work(name, gm, examples, chosen, tell)
    try:
        INSIDES.require_essentials()
        compiled = trace.run(work, chosen.trace) if chosen.trace else pipeline.run(work)
    except (BuildError, CacheError, UnsupportedGraph) as error:
        _check_form(name, gm, error)
        if not chosen.fallback:
            raise
        complain(f"{name} runs operator by operator: {error}", stacklevel=3)
        compiled = _uncompiled(name, gm, str(error))
    except InductorError:
        raise
    except Exception as error:
        _check_form(name, gm, error)
        raise
    compiled.calling = calling_of(name, gm, compiled.program)
    compiled.call = with_constants(compiled.call, gm, examples, compiled.program)
    STATE.metrics.add(compiled.report)
    return compiled


def _check_form(name: str, gm: GraphModule, error: Exception) -> None:
    """Says of a graph that breaks the rules of graphs which one."""
    try:
        gm.graph.lint()
    except Exception as complaint:  # noqa: BLE001 - whatever the graph is, its own check says it best
        raise NotAGraph(f"{name} is no well-formed graph, which graph.lint() shows: {complaint}") from error


def _uncompiled(name: str, gm: GraphModule, reason: str) -> CompiledGraph:
    """The graph as it came."""

    def call(inputs: list[Any]) -> tuple[Any, ...]:
        try:
            arguments = tuple(inputs)
            inputs.clear()
        except (AttributeError, TypeError):
            check_list(inputs, name, len(gm.graph.find_nodes(op="placeholder")))
        outputs = gm.forward(*arguments)  # calling the module would print the user's error a second time
        return tuple(outputs) if isinstance(outputs, list | tuple) else (outputs,)

    return CompiledGraph(as_eager_lays(gm, call), gm.code, None, Report(failure=reason))
