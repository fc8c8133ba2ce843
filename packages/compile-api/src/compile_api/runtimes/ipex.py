"""Backend ``ipex``: Intel's extension for PyTorch optimizes the captured graph.  For whoever has a matching torch."""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from compile_api.backends import CompilerFn, Context, backend
from compile_api.runtimes.ofi import real_inputs, refuse_training

_PACKAGE = "intel_extension_for_pytorch"


def lacks_matching_torch() -> str:
    """It dies at import beside another torch than its own, so versions are compared before."""
    theirs = importlib.metadata.version(_PACKAGE).split("+")[0].split(".")[:2]
    ours = torch.__version__.split("+")[0].split(".")[:2]
    if theirs == ours:
        return ""
    wanted, have = ".".join(theirs), ".".join(ours)
    return f"needs torch {wanted} and meets torch {have}: its development has ended, so no release fits a newer torch"


@backend(
    "ipex",
    note="Intel's extension for PyTorch",
    needs=(_PACKAGE,),
    install="pip install intel-extension-for-pytorch, with torch 2.8",
    devices="CPU",
    training=False,
    lacks=lacks_matching_torch,
)
def ipex(ctx: Context) -> CompilerFn:
    return compile_graph


def compile_graph(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    refuse_training(example_inputs, "ipex")
    extension = importlib.import_module(_PACKAGE)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        optimized = extension.optimize(gm.eval(), inplace=False)
        traced = torch.jit.trace(optimized, real_inputs(example_inputs), check_trace=False)
        return torch.jit.freeze(traced.eval())
