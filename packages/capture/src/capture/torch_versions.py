"""The table of torch's insides that capturing stands on.

A row is a path into torch, why we use it, and what happens without it; ``essential`` rows switch everything off,
others one feature.  Modules import names from here as if they were here: ``from capture.torch_versions import
is_view``.  The name is the last part of the path without its underscore, and ``..._of`` for what is read from
instances (``attribute``).  A row that this torch lacks gives an ``Absent``, which can be imported and complains when
it is called (``insides``).  What happens without a row is one of these sentences, so that equal consequences read
alike:
"""

from __future__ import annotations

from typing import Any

from capture.errors import SkipFrame
from capture.insides import Inside, Insides, operators
from capture.reasons import Kind, Reason

_NOTHING = "nothing is captured and every function runs in CPython"
_BREAK = "a call of it is a break"
_EACH_TIME = "operators run on fakes each time that a graph has them"
_SIZES = "functions whose sizes vary run in CPython"
_KERNELS = "functions that start Triton kernels run in CPython"
_HINT = "install a torch that was tested with this release, or a newer release of capture"


def _called(path: str, why: str = "which programs and torch's own functions call") -> Inside:
    """A row for what captured code calls; a torch that lacks it has no code that does."""
    return Inside(path, why, "a torch without it has no code that calls it")


INSIDES = Insides(
    lambda sentence: SkipFrame(Reason(Kind.TORCH, sentence, _HINT)),
    [
        # -- the tracing toolbox
        Inside("torch._subclasses.fake_tensor.FakeTensor", "which has a layout and no data", _NOTHING, essential=True),
        Inside("torch._subclasses.fake_tensor.FakeTensorMode", "which computes layouts", _NOTHING, essential=True),
        *(
            Inside(f"torch._subclasses.fake_tensor.{name}", why, _NOTHING, essential=True)
            for name, why in (
                ("DataDependentOutputException", "which says that a number depends on data"),
                ("DynamicOutputShapeException", "which says that a size depends on data"),
                ("UnsupportedOperatorException", "which says that an operator has no rule for layouts"),
            )
        ),
        Inside(
            "torch._dispatch.python.enable_python_dispatcher", "which prefers rules in Python", _NOTHING, essential=True
        ),
        Inside("torch._C._DisablePythonDispatcher", "which ends that preference", _NOTHING, essential=True),
        Inside("torch._ops.OpOverload", "which is one form of an operator", _NOTHING, essential=True),
        Inside("torch._ops.OpOverloadPacket", "which is an operator with all its forms", _NOTHING, essential=True),
        Inside(
            "torch.ops.aten.add.Tensor._schema",
            "which says what an operator takes",
            _NOTHING,
            essential=True,
            attribute=True,
        ),
        Inside("torch._library.custom_ops.OPDEFS", "which holds operators in Python", _BREAK),
        Inside("torch.library._impls", "which tells operators in Python from others", _BREAK),
        Inside("torch.utils._pytree", "which flattens arguments and results", _NOTHING, essential=True),
        Inside("torch._C._DisableTorchDispatch", "which looks below a tensor subclass", _NOTHING, essential=True),
        Inside("torch.Tensor._make_subclass", "which fakes are made again by", _EACH_TIME),
        Inside("torch._C._set_throw_on_mutable_data_ptr", "which says that a fake has no data", _EACH_TIME),
        Inside(
            "torch._C.DisableTorchFunctionSubclass",
            "which programs open to look at a tensor without code of its class",
            _NOTHING,
            essential=True,
        ),
        Inside(
            "torch._C.DisableTorchFunction",
            "which looks at a tensor without code of its class or of a mode",
            _NOTHING,
            essential=True,
        ),
        Inside("torch._C._VariableFunctions", "which holds torch's functions", _NOTHING, essential=True),
        *(
            Inside(f"torch._C.{name}", "which holds functions made in C", _NOTHING, essential=True)
            for name in ("_nn", "_linalg", "_fft", "_special", "_sparse")
        ),
        Inside("torch._C.TensorBase", "which has the methods of tensors", _NOTHING, essential=True),
        Inside(
            "torch.Tensor._version",
            "which shows that a tensor was written to",
            _NOTHING,
            essential=True,
            attribute=True,
        ),
        Inside("torch.Tensor._is_view", "which says that a tensor looks at another", _NOTHING, essential=True),
        Inside(
            "torch.Tensor._base", "which is the tensor that a view looks at", _NOTHING, essential=True, attribute=True
        ),
        Inside(
            "torch.UntypedStorage()._cdata", "which is a storage's identity", _NOTHING, essential=True, attribute=True
        ),
        Inside(
            "torch._C._autograd._unsafe_set_version_counter",
            "which takes back a count of changes",
            "a tensor whose change was taken back counts as changed for autograd",
        ),
        # -- modes
        Inside("torch._C._set_grad_enabled", "which a graph sets the mode by", _NOTHING, essential=True),
        Inside("torch.amp.autocast_mode._enter_autocast", "which a graph enters autocast by", _NOTHING, essential=True),
        Inside("torch.amp.autocast_mode._exit_autocast", "which a graph leaves it by", _NOTHING, essential=True),
        Inside(
            "torch.autograd.grad_mode._enter_inference_mode",
            "which a graph enters inference mode by",
            _NOTHING,
            essential=True,
        ),
        Inside("torch.autograd.grad_mode._exit_inference_mode", "which a graph leaves it by", _NOTHING, essential=True),
        *(
            Inside(f"torch.{name}", why, _NOTHING, essential=True)
            for name, why in (
                ("_C._is_any_autocast_enabled", "which guards ask"),
                ("_C._autograd._top_saved_tensors_default_hooks", "which tells hooks on what autograd keeps"),
                ("_C._autograd._saved_tensors_hooks_set_tracing", "which keeps such hooks from being called"),
                ("_C._len_torch_function_stack", "which guards ask"),
                ("_C._len_torch_dispatch_stack", "which guards ask"),
                ("_C.DispatchKey", "which names what a tensor subclass has switched off"),
                ("_C._dispatch_tls_is_dispatch_key_excluded", "which says whether one is at work"),
                ("_C._get_deterministic_algorithms", "which guards ask"),
                ("_C._functorch.maybe_current_level", "which guards ask"),
                ("_C._functorch.is_functorch_wrapped_tensor", "which knows what `vmap` and `grad` hand over"),
                ("overrides._get_current_function_mode_stack", "which tells the default device"),
                ("utils._device.DeviceContext", "which is the default device"),
                ("utils._device._device_constructors", "which tells what it acts on"),
            )
        ),
        *(
            Inside(
                f"torch._C.{name}", why, "handlers of signals that come while a graph is compiled may meet its modes"
            )
            for name, why in (
                ("_ForceDispatchKeyGuard", "which puts the program's modes back"),
                ("_dispatch_tls_local_include_set", "which tells what is switched on"),
                ("_dispatch_tls_local_exclude_set", "which tells what is switched off"),
                ("_pop_torch_dispatch_stack", "which takes a mode off the stack"),
                ("_push_on_torch_dispatch_stack", "which puts it back"),
            )
        ),
        Inside(
            "torch.autograd.forward_ad._current_level",
            "which tells that gradients are computed in forward mode",
            "compiled code drops gradients in forward mode",
            attribute=True,
        ),
        Inside("torch.Tensor._is_zerotensor", "which tells zeros that have no memory", _NOTHING, essential=True),
        Inside("torch.autocast(cpu)._enabled", "which is what a context was made with", _BREAK, attribute=True),
        Inside("torch.autocast(cpu)._cache_enabled", "which is what a context was made with", _BREAK, attribute=True),
        # -- dynamic sizes
        Inside("torch._guards.Source", "which torch names a symbol by", _SIZES),
        Inside("torch._prims_common.suggest_memory_format", "which tells layouts apart", _SIZES),
        Inside("torch.utils._sympy.printers.PythonPrinter", "which writes a size as Python", _SIZES),
        Inside("torch.utils._sympy.symbol.SymT", "which tells kinds of symbols apart", _SIZES),
        Inside("torch.utils._sympy.symbol.symbol_is_type", "which tells kinds of symbols apart", _SIZES),
        *(
            Inside(f"torch.utils._sympy.functions.{name}", "which sizes are made of", _SIZES)
            for name in ("CleanDiv", "FloorDiv", "Max", "Min", "Mod", "PythonMod")
        ),
        # -- what graphs call
        Inside("torch._foreach_mul", "which a fused optimizer's step is made of", _BREAK),
        Inside("torch._foreach_copy_", "which a fused optimizer's step is made of", _BREAK),
        Inside("torch.ops.aten._grouped_mm", "whose fake refuses types", "products by groups of these are CPython's"),
        Inside("torch.ops.aten._unsafe_view", "which is a view to fakes", "views of products keep torch's rule"),
        Inside("torch.ops.aten._foreach_sub", "which refuses truths", "truths in lists are subtracted from by CPython"),
        Inside(
            "torch.ops.aten._foreach_sub_", "which refuses truths", "truths in lists are subtracted from by CPython"
        ),
        Inside("torch._is_functional_tensor", "which knows a tensor that is traced", _KERNELS),
        Inside("torch.utils._pytree._broadcast_to_and_flatten", "which spreads `in_dims`", "`vmap` is a break"),
        Inside("torch.utils._contextlib.context_decorator", "which makes a decorator of a context", _BREAK),
        Inside(
            "torch._C._dynamo.eval_frame.set_eval_frame",
            "which torch's own compiler is kept off our frames by",
            "a function that it compiled and that calls one of ours may fail",
        ),
        Inside("torch._disable_dynamo", "which torch keeps its compiler off by", "functions made by it are captured"),
        # -- what captured code calls
        Inside(
            "torch._C._get_tracing_state",
            "which tells that torch.jit traces",
            "compiled code is called while torch.jit traces, and may end the process",
        ),
        _called("torch._C._get_privateuse1_backend_name"),
        _called("torch._C._get_dispatch_mode"),
        _called("torch._C._log_api_usage_once"),
        _called("torch._assert"),
        _called("torch._C._accelerator_getAccelerator"),
        _called("torch._C._cuda_isCurrentStreamCapturing"),
        _called("torch._C._group_tensors_by_device_and_dtype", "which torch's optimizers call"),
        _called("torch.optim.optimizer._get_value", "which torch's optimizers call"),
        _called("torch.cuda._exchange_device"),
        _called("torch.cuda._maybe_exchange_device"),
        *operators(
            """
            _index_put_impl_ _log_softmax _native_batch_norm_legit _native_batch_norm_legit_functional
            _native_batch_norm_legit_no_training _softmax
            """,
            why="which may refuse what its fake tensors let pass",
            without="no graph of this torch holds it",
        ),
        *operators(
            "_sparse_coo_tensor_with_dims_and_tensors _nnz _indices _indices_copy _values _values_copy",
            why="which makes a sparse tensor, or tells how many elements it keeps",
            without="no graph of this torch holds it",
        ),
        *operators(
            "_unsafe_view",
            why="which gives another shape to what nobody else has",
            without="`kron` and `affine_grid` of sizes that vary run in CPython",
        ),
        *operators(
            """
            _log_softmax_backward_data _softmax_backward_data _upsample_bicubic2d_aa _upsample_bilinear2d_aa
            _upsample_nearest_exact2d _upsample_nearest_exact3d
            """,
            why="whose fake lies in memory as its kernel's result does not",
            without="no graph of this torch holds it",
        ),
    ],
)
aten = INSIDES.operators("torch.ops.aten")


def __getattr__(name: str) -> Any:
    return INSIDES.get(name)
