"""Backend ``openvino``: OpenVINO compiles the captured graph for Intel CPUs and GPUs.  Inference only."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from compile_api.backends import CompilerFn, Context, backend
from compile_api.errors import BackendCannot
from compile_api.ledger import GraphCompiled
from compile_api.runtimes.by_size import for_each_size, refuse_symbolic_sizes
from compile_api.runtimes.ofi import refuse_training
from compile_api.torch_versions import extract_tensor_metadata
from compile_api.wiring import Boxed, FxCompiler, through_aotgrad


@backend(
    "openvino",
    note="OpenVINO's compiler for Intel processors",
    needs=("openvino",),
    install="pip install openvino",
    devices="CPU",
    training=False,
)
def openvino(ctx: Context) -> CompilerFn:
    def for_direction(direction: str) -> FxCompiler:
        def compile_graph(gm: fx.GraphModule, example_inputs: list[object]) -> Boxed:
            refuse_symbolic_sizes(gm)
            ctx.ledger.add(GraphCompiled(direction, len(gm.graph.nodes), (), ("openvino.model",), (), ()))
            return Model(gm).run

        return compile_graph

    inner = through_aotgrad(ctx, for_direction, None)

    def compile_graph(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
        refuse_training(example_inputs, "openvino")
        # The model is compiled for the CPU: tensors on another device would have to be copied at each call.
        if any(isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in example_inputs):
            raise BackendCannot("openvino computes on CPUs here, and an input is on another device")
        return inner(gm, example_inputs)

    return for_each_size(ctx, "openvino", compile_graph)


class Model:
    """A graph as a compiled OpenVINO model."""

    def __init__(self, gm: fx.GraphModule) -> None:
        runtime = importlib.import_module("openvino")
        # Its own torch integration would import torch's compiler; the front end alone does not.
        frontend = importlib.import_module("openvino.frontend").FrontEndManager().load_by_framework("pytorch")
        decoding = importlib.import_module("openvino.frontend.pytorch.fx_decoder")
        # OpenVINO reads from the decoder for as long as the model lives.
        self.decoder = decoding.TorchFXPythonDecoder(_with_metadata(gm))
        inputs = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
        try:
            model = frontend.convert(frontend.load(self.decoder))
            for given, value in zip(model.inputs, inputs, strict=True):
                parameter = given.get_node()
                parameter.set_element_type(runtime.Type(_NUMPY[value.dtype]))
                parameter.set_partial_shape(runtime.PartialShape(list(value.shape)))
            model.validate_nodes_and_infer_types()
            # Its CPU plugin would compute in bfloat16 where the processor can.
            settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
            self.request = runtime.Core().compile_model(model, "CPU", settings).create_infer_request()
        except RuntimeError as error:
            raise BackendCannot(f"OpenVINO does not take the graph: {_reason(error)}") from error
        self.tensor = runtime.Tensor
        output = next(node for node in gm.graph.nodes if node.op == "output")
        self.outputs = [node.meta["val"] for node in output.args[0]]

    def run(self, inputs: list[Any]) -> tuple[torch.Tensor, ...]:
        held = [each.detach().contiguous().numpy() for each in inputs]
        inputs.clear()
        results = self.request.infer([self.tensor(each, shared_memory=True) for each in held])
        # Copies: the request writes its next results to the same memory.
        made = [torch.from_numpy(results[index]).clone() for index in range(len(self.outputs))]
        return tuple(tensor.to(like.dtype).view(like.shape) for tensor, like in zip(made, self.outputs, strict=True))


_NUMPY = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.int64: "int64",
    torch.int32: "int32", torch.int8: "int8", torch.uint8: "uint8", torch.bool: "bool",
}  # fmt: skip


def _with_metadata(gm: fx.GraphModule) -> fx.GraphModule:
    """The front end reads types where torch's shape propagation leaves them."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            node.meta["tensor_meta"] = extract_tensor_metadata(value)
    return gm


def _reason(error: RuntimeError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    relevant = [line for line in lines if "conversion" in line.lower() or "not supported" in line.lower()]
    return (relevant or lines or ["no reason given"])[0]
