"""Backend ``tvm``: Apache TVM's Relax compiles the captured graph.  Inference only, untuned: for experiments.

TVM reads programs of ``torch.export``, so this module alone asks torch to make one; of a graph that is captured already
that is a mere change of form.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx

from compile_api.backends import CompilerFn, Context, backend
from compile_api.errors import BackendCannot
from compile_api.ledger import GraphCompiled
from compile_api.runtimes.by_size import for_each_size
from compile_api.runtimes.ofi import real_inputs, refuse_training


def lacks_relax() -> str:
    """The obstacle of a release that knows Relay alone, which is of another age; found without importing any of it."""
    spec = importlib.util.find_spec("tvm")
    places = (spec and spec.submodule_search_locations) or ()
    if any(Path(place, "relax", "frontend", "torch").is_dir() for place in places):
        return ""
    return "needs a TVM with Relax, and finds one without: pip install --upgrade apache-tvm"


@backend(
    "tvm",
    note="Apache TVM, untuned",
    needs=("tvm",),
    install="pip install apache-tvm",
    devices="CPU",
    training=False,
    lacks=lacks_relax,
)
def tvm(ctx: Context) -> CompilerFn:
    def compile_fixed(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
        compiled = compile_graph(gm, example_inputs)
        ctx.ledger.add(GraphCompiled("inference", len(gm.graph.nodes), (), ("tvm.relax",), (), ()))
        return compiled

    return for_each_size(ctx, "tvm", compile_fixed)


class _Positional(torch.nn.Module):
    """The graph as a module whose inputs are positional."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__()
        self.gm = gm

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.gm(*inputs)


def compile_graph(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
    refuse_training(example_inputs, "tvm")
    if not all(isinstance(x, torch.Tensor) and x.device.type == "cpu" for x in example_inputs):
        raise BackendCannot("tvm computes on CPUs here, and an input is elsewhere or no tensor")
    machine = _machine(gm, example_inputs)
    from_dlpack = importlib.import_module("tvm.runtime").from_dlpack

    def call(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = machine["main"](*(from_dlpack(each.detach().contiguous()) for each in inputs))
        return tuple(torch.from_dlpack(each) for each in outputs)

    return call


def _machine(gm: fx.GraphModule, example_inputs: list[object]) -> Any:
    """The graph as a module of TVM's virtual machine."""
    relax = importlib.import_module("tvm.relax")
    frontend = importlib.import_module("tvm.relax.frontend.torch")
    export = importlib.import_module("torch.export").export
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            program = export(_Positional(gm), real_inputs(example_inputs))
            module = frontend.from_exported_program(program.run_decompositions({}), keep_params_as_input=False)
            target = importlib.import_module("tvm").target.Target("llvm")
            executable = importlib.import_module("tvm").compile(module, target)
        except Exception as error:  # TVM's importer has asserts, key errors and errors of its own for what it lacks
            raise BackendCannot(f"TVM does not take the graph: {type(error).__name__}: {_first(error)}") from error
    return relax.VirtualMachine(executable, importlib.import_module("tvm").cpu())


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]
