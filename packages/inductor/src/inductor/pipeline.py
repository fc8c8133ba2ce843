"""The stages from an FX graph to something that runs: a list, in the order they happen.

Each stage takes the work so far and returns it with its own part filled in.  What a stage made can be printed, so that
a trace folder is nothing but this list written down, and verified, which the option ``verify`` asks for.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from torch.fx import GraphModule

from inductor import assemble, decompose, lower, schedule, triton_products
from inductor.assemble import BuiltKernels
from inductor.codegen.units import PrintedProgram
from inductor.codegen.wrapper import Wrapper
from inductor.compiled import CompiledGraph
from inductor.ir import show, verify
from inductor.ir.graph import Graph
from inductor.ir.program import Program
from inductor.labels import labelled
from inductor.options import Options


@dataclass(frozen=True, slots=True)
class Work:
    """A graph on its way through the stages; fields of later stages are None until then.  ``pieces`` are the kernels
    and calls that the program is made of."""

    name: str
    gm: GraphModule
    example_inputs: Sequence[Any]
    options: Options
    tell: Callable[[str], None] | None = None
    graph: Graph | None = None
    pieces: Sequence[schedule.Work] = ()
    program: Program | None = None
    printed: PrintedProgram | None = None
    built: BuiltKernels | None = None
    wrapper: Wrapper | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


def _nothing(work: Work) -> None:
    """The verification of a stage without rules."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage.  ``run`` does its part; ``texts`` returns its result as files by name, for people, or where these are
    ``sources`` for tools too; ``verify`` raises where it breaks a rule."""

    name: str
    run: Callable[[Work], Work]
    texts: Callable[[Work], dict[str, str]]
    sources: bool = False
    verify: Callable[[Work], None] = _nothing


def _prepare(work: Work) -> Work:
    return replace(work, gm=decompose.prepare(work.gm, work.example_inputs))


def _lower(work: Work) -> Work:
    fused_random = work.options.random == "fused"
    epilogues = not work.options.max_autotune  # which has kernels of ours in their place
    return replace(work, graph=lower.lower(work.gm, work.example_inputs, work.name, fused_random, epilogues))


def _schedule(work: Work) -> Work:
    assert work.graph is not None
    pieces = schedule.work_of(work.graph)
    return replace(work, pieces=pieces, program=schedule.program_of(work.graph, pieces))


def _lay_out(work: Work) -> Work:
    assert work.program is not None
    return replace(work, program=assemble.lay_out(work.program, work.options))


def _print(work: Work) -> Work:
    assert work.program is not None
    return replace(work, printed=assemble.print_kernels(work.program, work.options))


def _build(work: Work) -> Work:
    assert work.program is not None
    assert work.printed is not None
    built = assemble.build_kernels(work.program, work.printed, work.options, work.tell)
    return replace(work, built=labelled(built) if work.options.labels else built)


def _tune(work: Work) -> Work:
    """Tries what ``max_autotune`` asks for on the device: products as kernels, then other shapes.  Where something else
    than the first guess is faster, the stages behind that choice run again."""
    if not work.options.max_autotune:
        return work
    assert work.graph is not None
    graph, pieces = triton_products.choose(work.graph, work.pieces, work.options)
    # Other kernels: memory, layouts and texts follow from them.
    if pieces is not work.pieces:
        program = schedule.program_of(graph, pieces)
        work = _build(_print(_lay_out(replace(work, graph=graph, pieces=pieces, program=program))))
    assert work.program is not None
    assert work.printed is not None
    # The same program object says that every first guess was the fastest.
    tuned = assemble.tuned(work.program, work.printed, work.options)
    return work if tuned is work.program else _build(_print(replace(work, program=tuned)))


def _wrap(work: Work) -> Work:
    assert work.program is not None
    assert work.built is not None
    assert work.graph is not None
    assert work.printed is not None
    wrapper = assemble.bind_wrapper(work.program, work.printed, work.built, work.graph.constants, work.options)
    return replace(work, wrapper=wrapper)


def _verify_graph(work: Work) -> None:
    assert work.graph is not None
    verify.verify_graph(work.graph)


def _verify_program(work: Work) -> None:
    assert work.program is not None
    verify.verify_program(work.program)


def _verify_layouts(work: Work) -> None:
    assert work.program is not None
    verify.verify_layouts(work.program)


STAGES: tuple[Stage, ...] = (
    Stage(
        "prepare",
        _prepare,
        lambda work: {"fx_graph.py": work.gm.print_readable(print_output=False)},
        verify=lambda work: work.gm.graph.lint(),
    ),
    Stage(
        "lower",
        _lower,
        lambda work: {"graph.txt": show.graph_text(work.graph) if work.graph else ""},
        verify=_verify_graph,
    ),
    Stage(
        "schedule",
        _schedule,
        lambda work: {"program.txt": show.program_text(work.program) if work.program else ""},
        verify=_verify_program,
    ),
    Stage(
        "layout",
        _lay_out,
        lambda work: {"layouts.txt": show.layouts_text(work.program) if work.program else ""},
        verify=_verify_layouts,
    ),
    Stage("print", _print, lambda work: work.printed.files() if work.printed else {}, sources=True),
    Stage("build", _build, lambda work: {}),
    Stage("tune", _tune, lambda work: {}, verify=_verify_layouts),
    Stage("wrap", _wrap, lambda work: {"wrapper.py": work.wrapper.source if work.wrapper else ""}, sources=True),
)


def run(work: Work, observe: Callable[[Stage, Work], None] | None = None) -> CompiledGraph:
    """Runs every stage; ``observe`` sees the work after each."""
    with uncollected():
        for stage in STAGES:
            start = time.perf_counter()
            if work.tell is not None:
                work.tell(stage.name)
            work = stage.run(work)
            work = replace(work, seconds={**work.seconds, stage.name: time.perf_counter() - start})
            # After the clock: seconds of stages are those of the work alone.
            if work.options.verify:
                stage.verify(work)
            if observe is not None:
                observe(stage, work)
    assert work.program is not None
    assert work.wrapper is not None
    assert work.built is not None
    return assemble.finish(work.program, work.wrapper, work.built, work.seconds, work.graph)


@contextmanager
def uncollected() -> Iterator[None]:
    """Suspends garbage collection: compiling makes many small objects and no cycles worth 0.7 s of search."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
