"""``inductor.compile``: from one FX graph to a callable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import torch
from torch.fx import GraphModule

from inductor import pipeline, trace
from inductor.calling import calling_of, check_list, fixed_in, taken_by, with_constants
from inductor.compiled import CompiledGraph
from inductor.complaints import complain
from inductor.errors import BuildError, CacheError, InductorError, NotAGraph, UnsupportedGraph
from inductor.exported import CompiledProgram, Program, compile_exported, is_program
from inductor.given import examples_of, graph_of
from inductor.held import as_inputs, with_held
from inductor.images_in_training import as_eager_lays
from inductor.ir.program import WIDEST
from inductor.options import Options
from inductor.report import Report
from inductor.state import STATE
from inductor.stored.keys import NoKey, key_of_graph
from inductor.stored.loading import take_up
from inductor.stored.saving import keep
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
    held: tuple[torch.Tensor, ...] = ()
    try:
        INSIDES.require_essentials()
        if (found := as_inputs(gm, examples)) is not None:
            held = found[1]
            work = replace(work, gm=found[0], example_inputs=[*examples, *held])
        compiled = _made(work)
    except (BuildError, CacheError, UnsupportedGraph) as error:
        _check_form(name, gm, error)
        if not chosen.fallback:
            raise
        complain(f"{name} runs operator by operator: {error}", stacklevel=3)
        compiled, held = _uncompiled(name, gm, str(error)), ()
    except InductorError:
        raise
    # Not an error of ours: a graph that is not well-formed is the likely cause, and its message the more helpful one.
    except Exception as error:
        _check_form(name, gm, error)
        raise
    # One from the cache was bound to its calling convention when it was taken up.
    if held or not compiled.report.from_cache:
        taken = taken_by(compiled.program).of_first(len(examples))
        if held:
            eager = _uncompiled(name, gm, "an input shares memory with what the graph holds").call
            compiled.call, compiled.key = with_held(name, compiled.call, held, len(examples), eager), None
        compiled.calling = calling_of(name, gm, taken)
        compiled.call = with_constants(compiled.call, fixed_in(gm, examples, taken))
    if places := [place for place, given in enumerate(examples) if isinstance(given, int | torch.SymInt)]:
        compiled.call = _where_they_fit(compiled.call, places, name, gm)
    STATE.metrics.add(compiled.report)
    return compiled


def load(key: str, *, options: Options | Mapping[str, object] | None = None) -> CompiledGraph | None:
    """A compiled graph from the cache, which an earlier compilation, of this process or another, left under
    ``compiled.key``.

    None where it is absent, damaged, made by other versions or for another processor, or calls an operator that this
    process does not know: then the graph has to be compiled.  ``options`` say where the cache is; everything else is as
    it was compiled.  Tensors that the graph held are copies made when it was stored.
    """
    compiled = take_up(key, f"graph_{next(STATE.graph_numbers)}", Options.read(options))
    if compiled is not None:
        STATE.metrics.add(compiled.report)
    return compiled


def _made(work: pipeline.Work) -> CompiledGraph:
    """The graph compiled, or taken up from the cache, or compiled and stored there."""
    if work.options.trace:
        return _without(trace.run(work, work.options.trace), "it is traced")
    with pipeline.uncollected():
        return _kept(work) if work.options.store_graphs else _without(pipeline.run(work), "`store_graphs` is off")


def _kept(work: pipeline.Work) -> CompiledGraph:
    """The graph taken up from the cache, or compiled and stored there."""
    gm, options = work.gm, work.options
    try:
        key = key_of_graph(gm, work.example_inputs, options)
    except NoKey as error:
        return _without(pipeline.run(work), str(error))
    compiled = take_up(key.text, work.name, options, gm, work.example_inputs)
    if compiled is not None:
        if work.tell is not None:
            work.tell("take up")
        return compiled
    # The last stage's work is what the file is written from: the compiled graph itself no longer has it.
    last = work

    def observe(stage: pipeline.Stage, after: pipeline.Work) -> None:
        nonlocal last
        last = after

    compiled = pipeline.run(work, observe)
    keep(key, gm, last, compiled)
    return compiled


def _without(compiled: CompiledGraph, reason: str) -> CompiledGraph:
    compiled.report = replace(compiled.report, not_stored=reason)
    return compiled


def _check_form(name: str, gm: GraphModule, error: Exception) -> None:
    """Raises ``NotAGraph`` with the complaint of the graph's own check, if it breaks the rules of FX graphs."""
    try:
        gm.graph.lint()
    except Exception as complaint:  # noqa: BLE001 - whatever the graph is, its own check says it best
        raise NotAGraph(f"{name} is no well-formed graph, which graph.lint() shows: {complaint}") from error


def _where_they_fit(
    call: Callable[[list[object]], tuple[object, ...]], places: Sequence[int], name: str, gm: GraphModule
) -> Callable[[list[object]], tuple[object, ...]]:
    """The call for integers that kernels can be given; of wider ones, which Python has, the graph runs as it is."""

    def chosen(inputs: list[object]) -> tuple[object, ...]:
        # Whatever else is wrong with the inputs, the call itself says.
        given = [inputs[place] for place in places] if type(inputs) is list and len(inputs) > places[-1] else ()
        if any(type(number) is int and not -WIDEST <= number <= WIDEST for number in given):
            return _uncompiled(name, gm, "a wide integer").call(inputs)
        return call(inputs)

    return chosen


def _uncompiled(name: str, gm: GraphModule, reason: str) -> CompiledGraph:
    """The graph as it was given, which runs operator by operator."""

    def call(inputs: list[Any]) -> tuple[Any, ...]:
        try:
            arguments = tuple(inputs)
            inputs.clear()
        except (AttributeError, TypeError):
            check_list(inputs, name, len(gm.graph.find_nodes(op="placeholder")))
        outputs = gm.forward(*arguments)  # calling the module would print the user's error a second time
        return tuple(outputs) if isinstance(outputs, list | tuple) else (outputs,)

    report = Report(failure=reason, not_stored="it runs operator by operator")
    return CompiledGraph(as_eager_lays(gm, call), gm.code, None, report)
