"""Backend ``ipex``: Intel's extension for PyTorch, whose operators and fusions work through TorchScript.

Its development has ended with a release for torch 2.8, so no torch of today can reach it; the adapter is kept to its
interface.  Inference is the captured graph, optimized, traced and frozen; training the forward and backward graph,
traced each: what the extension registers when it is imported is applied to them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from compile_api.backends import CompilerFn, Context, backend
from compile_api.errors import BackendCannot
from compile_api.ledger import GraphCompiled
from compile_api.runtimes.by_size import for_each_size
from compile_api.runtimes.ofi import real_inputs
from compile_api.wiring import Boxed, FxCompiler, through_aotgrad

_PACKAGE = "intel_extension_for_pytorch"
_ENDED = (
    "its development has ended, and its last release, 2.8, is for torch 2.8, which is older than compile-api takes; "
    "backends 'inductor' and 'openvino' are for Intel's processors, too"
)


def lacks_matching_torch() -> str:
    """The obstacle of another torch than its own, beside which it dies at import: versions are compared before."""
    theirs = importlib.metadata.version(_PACKAGE).split("+")[0].split(".")[:2]
    ours = torch.__version__.split("+")[0].split(".")[:2]
    if theirs == ours:
        return ""
    return f"needs torch {'.'.join(theirs)} and meets torch {'.'.join(ours)}: {_ENDED}"


@backend(
    "ipex",
    note="Intel's extension for PyTorch",
    needs=(_PACKAGE,),
    install=_ENDED,
    devices="CPU",
    lacks=lacks_matching_torch,
)
def ipex(ctx: Context) -> CompilerFn:
    def for_direction(direction: str) -> FxCompiler:
        def compile_half(gm: fx.GraphModule, example_inputs: list[object]) -> Boxed:
            importlib.import_module(_PACKAGE)
            half = _TensorsOnly(gm)
            script = traced(half, example_inputs)
            ctx.ledger.add(GraphCompiled(direction, len(gm.graph.nodes), (), ("ipex.script",), (), ()))
            return lambda inputs: half.whole(script(*inputs))

        return compile_half

    trains = through_aotgrad(ctx, for_direction, None)

    def compile_graph(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
        # A frozen module has no gradients: it is for graphs that nobody differentiates.
        wanted = (isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs)
        if torch.is_grad_enabled() and any(wanted):
            return trains(gm, example_inputs)
        optimized = importlib.import_module(_PACKAGE).optimize(gm.eval(), inplace=False)
        script = torch.jit.freeze(traced(optimized, example_inputs).eval())
        ctx.ledger.add(GraphCompiled("inference", len(gm.graph.nodes), (), ("ipex.script",), (), ()))
        return script

    return for_each_size(ctx, "ipex", compile_graph)


def traced(module: torch.nn.Module, example_inputs: list[object]) -> Any:
    """The module as a program of TorchScript."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch.jit says that it is deprecated: the user asked for it by name
        try:
            return torch.jit.trace(module, real_inputs(example_inputs), check_trace=False)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise BackendCannot(f"TorchScript does not take the graph: {reason}") from error


class _TensorsOnly(torch.nn.Module):
    """A graph without those of its outputs that are no tensors, which TorchScript cannot trace."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__()
        self.gm = gm
        self.outputs = tuple(None if isinstance(each, fx.Node) else each for each in gm.graph.output_node().args[0])
        self.tensors = [at for at, each in enumerate(gm.graph.output_node().args[0]) if isinstance(each, fx.Node)]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = self.gm(*inputs)
        return tuple(outputs[at] for at in self.tensors)

    def whole(self, tensors: tuple[torch.Tensor, ...]) -> list[Any]:
        """All outputs again."""
        outputs: list[Any] = list(self.outputs)
        for at, tensor in zip(self.tensors, tensors, strict=True):
            outputs[at] = tensor
        return outputs
