"""The built-in backends: how the engines are joined.  Only this module and ``compile`` know more than one of them.

The chain of the default backend, each link a function that makes the next one's compiler:

    capture -> through_aotgrad -> forgiving(direction) -> generate(direction) -> inductor.compile [-> cudagraphs]

Errors are handled from the inside out: ``forgiving`` runs one direction's operators one by one, ``through_aotgrad``
the whole graph eagerly.  Both put the reason on record; what is a mistake of ours is raised under ``strict``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import torch

import aotgrad
import cudagraphs
import inductor
from capture import CaptureWarning, WaitingNotices, carry_deliveries, inform, let_deliveries_through, words_of
from compile_api import logs
from compile_api.backends import CompilerFn, Context, backend
from compile_api.errors import BackendCannot
from compile_api.ledger import GraphCompiled, GraphRefused, LayersShared, kernels_of
from compile_api.memory import written
from compile_api.page import readable
from compile_api.warm_start.artefacts import Artefact

Boxed: TypeAlias = Callable[[list[Any]], Sequence[Any]]


class FxCompiler(Protocol):
    """A code generator as aotgrad calls it."""

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Boxed: ...


@backend("eager", note="runs the captured graph as it is: what capture alone does")
def eager(ctx: Context) -> CompilerFn:
    return lambda gm, example_inputs: gm.forward


@backend("aot_eager", note="runs the forward and backward ATen graphs uncompiled: what capture and aotgrad do")
def aot_eager(ctx: Context) -> CompilerFn:
    def interpret(direction: str) -> FxCompiler:
        def compile_graph(gm: torch.fx.GraphModule, example_inputs: list[object]) -> Boxed:
            # Compiled into nothing: the direction and the number of operators.
            ctx.ledger.add(GraphCompiled(direction, len(gm.graph.nodes), (), (), (), ()))
            return aotgrad.run_eagerly(gm, example_inputs)

        return compile_graph

    return through_aotgrad(ctx, interpret, decompositions=None)


def backward_later(ctx: Context) -> FxCompiler:
    """Backward of what another process traced, from its graph."""
    return forgiving(ctx, "backward", generate(ctx))


@backend(
    "inductor",
    note="fused kernels: C++ on CPUs, Triton on GPUs; inference and training",
    spares_single_runs=True,
    backward_later=backward_later,
)
def inductor_backend(ctx: Context) -> CompilerFn:
    try:
        decompositions = inductor.decompositions()
    except inductor.UnsupportedGraph as error:  # no graph of this torch can be compiled
        raise BackendCannot(str(error)) from error
    return through_aotgrad(
        ctx, generate(ctx), decompositions=decompositions, in_place=True, lay_out=inductor.lay_out_images
    )


@backend(
    "cudagraphs",
    aliases=("aot_cudagraphs",),
    note="ATen graphs recorded as CUDA graphs without generated kernels; eager on CPUs",
    spares_single_runs=True,
)
def cudagraphs_backend(ctx: Context) -> CompilerFn:
    def record(direction: str) -> FxCompiler:
        def compile_graph(gm: torch.fx.GraphModule, example_inputs: list[object]) -> Boxed:
            return recorded(ctx, direction, gm, aotgrad.run_eagerly(gm, example_inputs), example_inputs)

        return compile_graph

    return through_aotgrad(ctx, record, decompositions=None)


def generate(ctx: Context) -> Callable[[str], FxCompiler]:
    """The code generator for one direction, recorded as CUDA graphs where that was asked for."""

    def for_direction(direction: str) -> FxCompiler:
        def compile_graph(gm: torch.fx.GraphModule, example_inputs: list[object]) -> Boxed:
            what = f"{direction}, {len(gm.graph.nodes)} operators"
            ctx.progress.stage(what)
            folder = None if ctx.folder is None else ctx.folder.stage(direction)
            with inductor.complaints_heard(lambda text: inform(CaptureWarning(text))):
                compiled = inductor.compile(
                    gm,
                    example_inputs,
                    options={
                        "trace": folder or ctx.options.trace,
                        "labels": ctx.options.labels,
                        "max_autotune": ctx.options.max_autotune,
                        # Guards have looked at what forward gets; what backward gets comes from autograd, and from the
                        # program's own hooks.
                        "check_inputs": direction == "backward" or not ctx.guarded,
                        "store_graphs": ctx.artefacts is not None,
                    },
                    tell=lambda doing: ctx.progress.stage(f"{what}: {doing}"),
                )
            record = described(direction, gm, compiled, texts=ctx.folder is not None or logs.any_wanted())
            ctx.ledger.add(record)
            if ctx.folder is not None:
                ctx.folder.compiled(record)
            if ctx.artefacts is not None:
                ctx.artefacts.of_graphs[compiled.call] = Artefact(
                    compiled.key, compiled.report.not_stored or "", direction, record.nodes, record.written
                )
            if compiled.report.failure is not None:
                ctx.ledger.add(
                    GraphRefused("inductor", compiled.report.failure, "this graph runs operator by operator")
                )
            # ``call`` is the boxed form: a list that is emptied.
            if not ctx.options.cuda_graphs:
                return compiled.call
            return recorded(ctx, direction, gm, compiled.call, example_inputs)

        return compile_graph

    return for_direction


def recorded(
    ctx: Context, direction: str, gm: torch.fx.GraphModule, compiled: Boxed, example_inputs: list[object]
) -> Boxed:
    """The compiled ``gm`` as a CUDA graph where it and its inputs allow that, else as it is; the reason is kept."""

    def refuse(refused: cudagraphs.Refused) -> None:
        ctx.ledger.add(GraphRefused("cudagraphs", str(refused), "the kernels of this graph start one by one"))

    limits = cudagraphs.Options(
        pool_bytes=ctx.options.cuda_graph_pool_bytes, recordings_per_function=ctx.options.cuda_graph_recordings
    )
    return cudagraphs.capture_compiled(
        compiled,
        gm,
        example_inputs,
        name=direction,
        # Parameters lie where they lie from call to call, and need not be copied.
        static_inputs=aotgrad.differentiable_inputs(gm),
        options=limits,
        tell=refuse,
    ).call


def described(
    direction: str, gm: torch.fx.GraphModule, compiled: inductor.CompiledGraph, *, texts: bool = False
) -> GraphCompiled:
    """The ledger's record of one compiled graph; its texts take time to print, so only where someone reads them."""
    report = compiled.report
    return GraphCompiled(
        direction,
        len(gm.graph.nodes),
        kernels_of(report.kernels),
        report.library_calls,
        tuple(fallback.operator for fallback in report.fallbacks),
        tuple(report.seconds.items()),
        tuple(fallback.reason for fallback in report.fallbacks),
        written(gm, compiled),
        readable(gm) if texts else "",
        compiled.program_text if texts else "",
    )


def through_aotgrad(
    ctx: Context,
    compiler: Callable[[str], FxCompiler],
    decompositions: Any,
    in_place: bool = False,
    lay_out: Callable[[torch.fx.Graph], None] | None = None,
) -> CompilerFn:
    """A backend that differentiates first; a graph that cannot be is run eagerly, and the reason recorded."""
    partition = aotgrad.min_cut_partition if ctx.options.min_cut else aotgrad.default_partition

    def compile_graph(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        ctx.progress.stage("tracing forward and backward")
        try:
            compiled = aotgrad.compile(
                gm,
                example_inputs,
                forward=forgiving(ctx, "forward", compiler),
                backward=forgiving(ctx, "backward", compiler),
                inference=forgiving(ctx, "inference", compiler),
                partition=partition,
                decompositions=decompositions,
                in_place=in_place,
                lay_out=lay_out,
                layers=ctx.options.equal_layers and not ctx.options.cuda_graphs,
                describable=ctx.artefacts is not None,
            )
            for layers, operators in getattr(compiled, "stacks", ()):
                ctx.ledger.add(LayersShared(layers, operators))
            return compiled
        # A refusal, with its reason; what follows is a mistake.
        except aotgrad.AotgradError as error:
            let_deliveries_through(error)
            ctx.ledger.add(GraphRefused("aotgrad", str(error), "this graph runs eagerly"))
            return gm.forward
        except Exception as error:  # a mistake of ours must never be the user's problem
            let_deliveries_through(error)
            if ctx.options.strict:
                raise
            return after_our_mistake(ctx, gm, error)

    return compile_graph


def forgiving(ctx: Context, direction: str, compiler: Callable[[str], FxCompiler]) -> FxCompiler:
    """One direction's compiler, and its operators one after another where it fails.

    Backward is compiled when it is first needed, long after anyone waits for an error of it.
    """
    compile_direction = compiler(direction)

    def compile_graph(gm: torch.fx.GraphModule, example_inputs: list[object]) -> Boxed:
        # What there is to tell waits for the first call (``showing``).
        notices = WaitingNotices()
        # What a signal's handler raises, a time limit say, is no mistake of ours.
        with carry_deliveries(), notices.gathered():
            compiled = forgiven(gm, example_inputs)
        return showing(notices, compiled) if notices else compiled

    def forgiven(gm: torch.fx.GraphModule, example_inputs: list[object]) -> Boxed:
        try:
            return compile_direction(gm, example_inputs)
        except BackendCannot as error:
            let_deliveries_through(error)
            ctx.ledger.add(GraphRefused(direction, str(error), "this graph runs operator by operator"))
        except Exception as error:  # a mistake of ours, or of a compiler beneath, must never be the user's problem
            let_deliveries_through(error)
            if ctx.options.strict:
                raise
            after_our_mistake(ctx, gm, error)
        # Results as the tracer saw them laid out, on which what reads them relies.
        return inductor.as_eager_lays(gm, aotgrad.run_eagerly(gm, example_inputs))

    return compile_graph


def showing(notices: WaitingNotices, compiled: Boxed) -> Boxed:
    """Tells at the first call what there is to tell of the compilation: an error of that loses nothing compiled."""

    def call(inputs: list[Any]) -> Sequence[Any]:
        if notices:
            notices.tell()
        return compiled(inputs)

    return call


def after_our_mistake(ctx: Context, gm: torch.fx.GraphModule, error: Exception) -> Callable[..., Any]:
    """The graph as it is; what went wrong is kept, and said once."""
    reason = words_of(error)
    ctx.ledger.add(GraphRefused("compiler", reason, "this graph runs eagerly; please report it"))
    inform(CaptureWarning(f"compiling a graph failed inside compile-api, so it runs eagerly ({reason})"))
    return gm.forward
