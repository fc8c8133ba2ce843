"""The table of torch's insides that the face and the adapters of other compilers use."""

from __future__ import annotations

from typing import Any

from compile_api.errors import BackendCannot
from compile_api.insides import Inside, Insides, operators

_EAGER = "what needs it runs eagerly"
_IN_PLACE = "modules cannot be compiled in place"

INSIDES = Insides(
    BackendCannot,
    [
        Inside("torch._ops.OpOverload", "which is what the nodes of a graph call", _EAGER),
        Inside("torch.ops.aten.add.Tensor._schema", "which says what an operator takes", _EAGER, attribute=True),
        Inside("torch._subclasses.fake_tensor.FakeTensor", "which has a layout and no data", _EAGER),
        Inside(
            "torch._decomp.get_decompositions",
            "which says what operators are made of",
            "the backend onnxrt runs graphs eagerly",
        ),
        Inside("torch._guards.Source", "which torch names a symbol by", "varying sizes import torch's compiler"),
        Inside("torch.fx.experimental._config", "which says whether symbols are checked twice", "they are not"),
        Inside(
            "torch.utils._config_module.ConfigModule",
            "which the settings of torch's compiler are instances of",
            "no program hears of settings that are left out",
        ),
        Inside("torch.utils._pytree", "which walks nested results", "accuracy checks look at plain results only"),
        Inside("torch.nn.Module._call_impl", "which runs a module with its hooks", _IN_PLACE, attribute=True),
        Inside("torch.nn.Module._compiled_call_impl", "which a module is called by instead", _IN_PLACE, attribute=True),
        Inside(
            "torch.fx.passes.shape_prop._extract_tensor_metadata",
            "which OpenVINO's decoder asks for",
            "the backend openvino cannot be used",
        ),
        *operators(
            """
            _adaptive_avg_pool2d _log_softmax _log_softmax_backward_data _native_batch_norm_legit_functional
            _native_batch_norm_legit_no_training _scaled_dot_product_flash_attention_for_cpu _softmax
            _softmax_backward_data _to_copy _unsafe_view
            """,
            why="which has a rule of its own",
            without="no graph of this torch holds it",
        ),
    ],
)
aten = INSIDES.operators("torch.ops.aten")


def __getattr__(name: str) -> Any:
    return INSIDES.get(name)
