"""Backend ``nvfuser``: NVIDIA's fuser compiles the element-by-element and reducing parts of the ATen graphs.

For whoever has built it for the torch at hand: its wheels end with torch 2.9.  What it has no operator for stays with
torch.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from compile_api.backends import CompilerFn, Context, backend
from compile_api.ledger import GraphCompiled
from compile_api.runtimes.by_size import for_each_size, refuse_symbolic_sizes
from compile_api.torch_versions import aten
from compile_api.wiring import Boxed, FxCompiler, through_aotgrad

_POINTWISE: Mapping[Any, str] = {
    aten.add.Tensor: "add", aten.sub.Tensor: "sub", aten.mul.Tensor: "mul", aten.div.Tensor: "div",
    aten.neg.default: "neg", aten.abs.default: "abs", aten.exp.default: "exp", aten.log.default: "log",
    aten.sqrt.default: "sqrt", aten.rsqrt.default: "rsqrt", aten.reciprocal.default: "reciprocal",
    aten.sigmoid.default: "sigmoid", aten.tanh.default: "tanh", aten.sin.default: "sin", aten.cos.default: "cos",
    aten.erf.default: "erf", aten.relu.default: "relu", aten.pow.Tensor_Scalar: "pow", aten.where.self: "where",
    aten.gt.Scalar: "gt", aten.lt.Scalar: "lt", aten.ge.Scalar: "ge", aten.le.Scalar: "le",
}  # fmt: skip


_NO_WHEELS = (
    "its last wheels, nvfuser-cu130-torch29, are for torch 2.9, which is older than compile-api takes; build it from "
    "its sources for this torch, or use backend 'inductor'"
)


def lacks_a_build() -> str:
    """The obstacle of a missing or other build: its extension is built against one torch and one CUDA."""
    if not torch.cuda.is_available():
        return "needs an NVIDIA GPU, and there is none"
    try:
        importlib.import_module("nvfuser")
    except (ImportError, OSError) as error:
        return f"is built for another torch than {torch.__version__} ({error}): {_NO_WHEELS}"
    return ""


@backend(
    "nvfuser",
    aliases=("aot_nvfuser", "aot_ts_nvfuser", "nvprims_nvfuser"),
    note="NVIDIA's fuser for element-by-element chains",
    needs=("nvfuser",),
    install=_NO_WHEELS,
    devices="GPU",
    lacks=lacks_a_build,
)
def nvfuser(ctx: Context) -> CompilerFn:
    def for_direction(direction: str) -> FxCompiler:
        def compile_graph(gm: fx.GraphModule, example_inputs: list[object]) -> Boxed:
            refuse_symbolic_sizes(gm)
            whole, fusions = partitioned(gm)
            ctx.ledger.add(GraphCompiled(direction, len(gm.graph.nodes), (), fusions, (), ()))
            return lambda inputs: whole(*inputs)

        return compile_graph

    return for_each_size(ctx, "nvfuser", through_aotgrad(ctx, for_direction, None))


def partitioned(gm: fx.GraphModule) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The graph with its chains as fusions, and their names."""
    partitioner = CapabilityBasedPartitioner(gm, _Pointwise())
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    names = []
    for name, part in list(fused.named_children()):
        if isinstance(part, fx.GraphModule) and name.startswith("fused_"):
            setattr(fused, name, Fusion(part))
            names.append(f"nvfuser.{name}")
    return fused, tuple(names)


class _Pointwise(OperatorSupportBase):
    def is_node_supported(self, submodules: object, node: fx.Node) -> bool:
        return node.op == "call_function" and node.target in _POINTWISE and node.meta["val"].device.type == "cuda"


class Fusion(torch.nn.Module):
    """A chain of operators as a FusionDefinition."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__()
        self.definition = importlib.import_module("nvfuser").FusionDefinition()
        self.single = define(self.definition, gm)

    def forward(self, *inputs: torch.Tensor) -> Any:
        outputs = self.definition.execute(list(inputs))
        return outputs[0] if self.single else tuple(outputs)


def define(definition: Any, gm: fx.GraphModule) -> bool:
    """Writes ``gm`` into an nvFuser definition; says whether it has one output that is no tuple."""
    names: dict[fx.Node, Any] = {}

    def operand(each: Any) -> Any:
        return names[each] if isinstance(each, fx.Node) else definition.define_scalar(each)

    single = False
    with definition:
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                names[node] = definition.from_pytorch(node.meta["val"])
            elif node.op == "call_function":
                write = getattr(definition.ops, _POINTWISE[node.target])
                names[node] = write(*map(operand, node.args))
            # A fusion gives a list; the partitioner's call expects a tensor where the part returned one.
            elif node.op == "output":
                single = isinstance(node.args[0], fx.Node)
                for each in node.all_input_nodes:
                    definition.add_output(names[each])
    return single
