"""Backend ``onnxrt``: ONNX Runtime runs the forward and the backward graph, a session each.

Operators without a rule stay with torch, between sessions.  ``tensorrt`` is the same with TensorRT's execution provider
first.  Providers are taken in the order given, or the best of those that this build of ONNX Runtime has.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from compile_api.backends import CompilerFn, Context, backend
from compile_api.errors import BackendCannot
from compile_api.ledger import GraphCompiled
from compile_api.runtimes.by_size import for_each_size, refuse_symbolic_sizes
from compile_api.runtimes.onnx.model import converted
from compile_api.runtimes.onnx.nodes import value_of
from compile_api.runtimes.onnx.supported import takes, written_with_others
from compile_api.wiring import Boxed, FxCompiler, through_aotgrad

_BEST_FIRST = ("CUDAExecutionProvider", "CPUExecutionProvider")
_WITH_TENSORRT = ("TensorrtExecutionProvider", *_BEST_FIRST)


@backend(
    "onnxrt",
    note="ONNX Runtime; a session each for forward and backward",
    needs=("onnx", "onnxruntime"),
    install="pip install onnx onnxruntime (onnxruntime-gpu for CUDA)",
)
def onnxrt(ctx: Context) -> CompilerFn:
    return _through_sessions(ctx, ctx.options.providers or _BEST_FIRST)


def lacks_tensorrt() -> str:
    """The reason why ONNX Runtime cannot hand graphs to TensorRT here; empty where it can."""
    if "TensorrtExecutionProvider" in importlib.import_module("onnxruntime").get_available_providers():
        return ""
    return "needs an ONNX Runtime with TensorRT: pip install onnxruntime-gpu tensorrt, on a machine with an NVIDIA GPU"


@backend(
    "tensorrt",
    aliases=("fx2trt",),
    note="TensorRT, through ONNX Runtime's provider for it",
    needs=("onnx", "onnxruntime"),
    install="pip install onnx onnxruntime-gpu tensorrt",
    devices="GPU",
    lacks=lacks_tensorrt,
)
def tensorrt(ctx: Context) -> CompilerFn:
    return _through_sessions(ctx, ctx.options.providers or _WITH_TENSORRT)


def chosen_providers(wanted: Sequence[str], available: Sequence[str], device: str) -> list[str]:
    """The wanted ones that are there and can run on ``device``, the CPU's at the end."""
    able = [name for name in wanted if name in available and (device == "cuda" or name == "CPUExecutionProvider")]
    if not able and not set(wanted) <= set(_BEST_FIRST):
        raise BackendCannot(f"none of the providers {', '.join(wanted)} is in this build: {', '.join(available)}")
    return [*(name for name in able if name != "CPUExecutionProvider"), "CPUExecutionProvider"]


def _through_sessions(ctx: Context, providers: Sequence[str]) -> CompilerFn:
    # Filled and made here: only programs that use this backend wait for these tables.
    importlib.import_module("compile_api.runtimes.onnx.rules")
    decompositions = importlib.import_module("compile_api.torch_versions").get_decompositions(written_with_others())

    def for_direction(direction: str) -> FxCompiler:
        def compile_graph(gm: fx.GraphModule, example_inputs: list[object]) -> Boxed:
            refuse_symbolic_sizes(gm)
            whole, sessions, left = partitioned(gm, providers)
            ctx.ledger.add(GraphCompiled(direction, len(gm.graph.nodes), (), sessions, left, ()))
            return lambda inputs: whole(*inputs)

        return compile_graph

    return for_each_size(ctx, "onnxrt", through_aotgrad(ctx, for_direction, decompositions))


def partitioned(
    gm: fx.GraphModule, providers: Sequence[str]
) -> tuple[Callable[..., Any], tuple[str, ...], tuple[str, ...]]:
    """The graph with what ONNX can say in sessions; their names, and the operators that are left to torch."""
    partitioner = CapabilityBasedPartitioner(gm, _HasRule(), allows_single_node_partition=True)
    parts = partitioner.propose_partitions()
    left = tuple(
        str(n.target) for n in gm.graph.nodes if n.op == "call_function" and not takes(n) and n.all_input_nodes
    )
    # Taking one of several results is no operator that anybody would miss.
    left = tuple(name for name in left if "getitem" not in name)
    fused = partitioner.fuse_partitions(parts) if parts else gm
    names = []
    for name, part in list(fused.named_children()):
        if isinstance(part, fx.GraphModule) and name.startswith("fused_"):
            setattr(fused, name, Session(part, providers))
            names.append(f"onnxrt.{name}")
    return fused, tuple(names), left


class _HasRule(OperatorSupportBase):
    def is_node_supported(self, submodules: object, node: fx.Node) -> bool:
        return node.op == "call_function" and takes(node)


class Session(torch.nn.Module):
    """A part of a graph as a session: tensors go in and come out where they lie, without copies."""

    def __init__(self, gm: fx.GraphModule, providers: Sequence[str]) -> None:
        super().__init__()
        runtime = importlib.import_module("onnxruntime")
        runtime.disable_telemetry_events()
        model, inputs, outputs = converted(gm)
        # One session runs on one device: that of its results.
        device = value_of(outputs[0]).device
        able = chosen_providers(providers, runtime.get_available_providers(), device.type)
        self.session = runtime.InferenceSession(model, _settings(runtime), providers=able)
        numpy = importlib.import_module("numpy")
        self.types = {dtype: getattr(numpy, name) for dtype, name in _NUMPY.items()}
        self.device = device
        self.input_names = [each.name for each in self.session.get_inputs()]
        self.output_names = [each.name for each in self.session.get_outputs()]
        self.inputs = [value_of(node) for node in inputs]
        self.outputs = [value_of(node) for node in outputs]
        self.single = not isinstance(next(n for n in gm.graph.nodes if n.op == "output").args[0], tuple | list)

    def forward(self, *inputs: torch.Tensor) -> Any:
        binding = self.session.io_binding()
        held = [tensor.detach().contiguous() for tensor in inputs]  # alive until the session has run
        given = dict(zip(self.input_names, held, strict=True))
        for name, tensor in given.items():
            binding.bind_input(name, *self._where(tensor))
        results = [torch.empty(value.shape, dtype=value.dtype, device=value.device) for value in self.outputs]
        for name, tensor in zip(self.output_names, results, strict=True):
            binding.bind_output(name, *self._where(tensor))
        # The session works on a stream of its own, which does not wait for torch's.
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.session.run_with_iobinding(binding)
        laid_out = [_with_strides(tensor, like) for tensor, like in zip(results, self.outputs, strict=True)]
        return laid_out[0] if self.single else tuple(laid_out)

    def _where(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        device = tensor.device
        return device.type, device.index or 0, self.types[tensor.dtype], list(tensor.shape), tensor.data_ptr()


_NUMPY = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.int64: "int64",
    torch.int32: "int32", torch.int8: "int8", torch.uint8: "uint8", torch.bool: "bool_",
}  # fmt: skip


def _with_strides(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The strides that were traced, which the other direction's graph relies on."""
    if tensor.stride() == like.stride() or tensor.is_contiguous() == like.is_contiguous():
        return tensor
    return torch.empty_strided(like.shape, like.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _settings(runtime: Any) -> Any:
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    # Its threads and OpenMP's would spin against each other.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.log_severity_level = 3
    return settings
