"""The table of torch's private names that compiling an ATen graph depends on."""

from __future__ import annotations

from typing import Any

from inductor.errors import TorchLacks
from inductor.insides import Inside, Insides, operators

_NOTHING = "no graph is compiled, and compile-api runs each of them operator by operator"
_NO_GPU = "graphs on GPUs run operator by operator"
_AS_IT_IS = "the operators that are decomposed through it run as torch's own"


def _decomposing(name: str, why: str) -> Inside:
    return Inside(f"torch.{name}", why, _AS_IT_IS)


INSIDES = Insides(
    TorchLacks,
    [
        Inside("torch._ops.OpOverload", "which is what the nodes of a graph call", _NOTHING, essential=True),
        Inside("torch._ops.OpOverloadPacket", "which names all forms of an operator", _NOTHING, essential=True),
        Inside("torch.ops.aten.add.Tensor._schema", "which says what an operator takes", _NOTHING, True, True),
        Inside("torch._C._DisableTorchDispatch", "which asks operators while tracing", _NOTHING, essential=True),
        Inside("torch._C._set_grad_enabled", "which keeps library calls out of autograd", _NOTHING, essential=True),
        Inside("torch._C._cuda_getDevice", "which says what GPU is current", _NO_GPU, build="CUDA"),
        Inside("torch._C._cuda_getCurrentRawStream", "which kernels are started on", _NO_GPU, build="CUDA"),
        Inside("torch._C.DispatchKey", "by which operators made of others are known", _AS_IT_IS),
        Inside("torch.utils._pytree", "which flattens an operator's arguments", _NOTHING, essential=True),
        Inside("torch._decomp.decomposition_table", "in which torch says what its operators are made of", _AS_IT_IS),
        Inside("torch._subclasses.fake_tensor.FakeTensor", "which has a layout and no data", _NOTHING, essential=True),
        Inside("torch._subclasses.fake_tensor.FakeTensorMode", "which computes layouts", _NOTHING, essential=True),
        _decomposing("_enable_functionalization", "which makes writes new values"),
        _decomposing("_disable_functionalization", "which ends that"),
        _decomposing("_to_functional_tensor", "which wraps a tensor for it"),
        _decomposing("_from_functional_tensor", "which takes it out again"),
        _decomposing("_is_functional_tensor", "which recognises one"),
        _decomposing("_sync", "which brings one up to date"),
        Inside(
            "torch.ops.mkldnn._convolution_pointwise",
            "which is oneDNN's convolution with a sum behind it",
            "norms behind convolutions are kernels of their own",
        ),
        Inside(
            "torch.cuda._sleep", "which keeps the GPU busy while a measurement is prepared", "kernels are not measured"
        ),
        Inside(
            "torch.ops.aten._foreach_clone",
            "which has a lowering of its own",
            "no graph of this torch holds it",
            since="2.12",
        ),
        *operators(
            """
            _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d
            _adaptive_avg_pool3d_backward _addmm_activation _amp_foreach_non_finite_check_and_unscale _assert_async
            _assert_scalar
            _foreach_addcdiv _foreach_addcmul _foreach_copy _foreach_lerp _foreach_max
            _foreach_norm _foreach_pow _foreach_zero _int_mm _log_softmax _log_softmax_backward_data
            _native_batch_norm_legit _native_batch_norm_legit_functional
            _native_batch_norm_legit_no_training _neg_view _scaled_dot_product_cudnn_attention
            _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
            _scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
            _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu
            _scaled_dot_product_flash_attention_for_cpu_backward _softmax _softmax_backward_data _to_copy
            _unsafe_view _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
            """,
            why="which has a lowering or a rule of its own",
            without="no graph of this torch holds it",
        ),
    ],
)
aten = INSIDES.operators("torch.ops.aten")


def __getattr__(name: str) -> Any:
    return INSIDES.get(name)
