"""Backend ``ofi``: TorchScript's ``optimize_for_inference`` over the captured graph.  Inference only."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from compile_api.backends import CompilerFn, Context, backend
from compile_api.errors import BackendCannot
from compile_api.ledger import GraphCompiled
from compile_api.runtimes.by_size import for_each_size


@backend("ofi", note="TorchScript's optimize_for_inference", training=False)
def ofi(ctx: Context) -> CompilerFn:
    def compile_fixed(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
        compiled = compile_graph(gm, example_inputs)
        ctx.ledger.add(GraphCompiled("inference", len(gm.graph.nodes), (), ("ofi.script",), (), ()))
        return compiled

    return for_each_size(ctx, "ofi", compile_fixed)


def compile_graph(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
    refuse_training(example_inputs, "ofi")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit says that it is deprecated: the user asked for it by name
        try:
            scripted = torch.jit.trace(gm.eval(), real_inputs(example_inputs), check_trace=False)
            return torch.jit.optimize_for_inference(torch.jit.freeze(scripted.eval()))
        except RuntimeError as error:
            raise BackendCannot(
                f"TorchScript does not take the graph: {str(error).strip().splitlines()[-1]}"
            ) from error


def refuse_training(example_inputs: list[object], name: str) -> None:
    """Refuses a graph where gradients are recorded: without them it would be silently wrong."""
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs):
        raise BackendCannot(f"{name} is for inference, and gradients are recorded here; call it under torch.no_grad()")


def real_inputs(example_inputs: list[object]) -> tuple[Any, ...]:
    """Tensors to trace with; a captured graph has no branches, so their values do not matter."""
    return tuple(
        torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).zero_()
        if isinstance(x, torch.Tensor)
        else x
        for x in example_inputs
    )
