"""The table of torch's private names that tracing and differentiating depend on.

A row is a path into torch, why we use it, and what happens without it; ``essential`` rows switch everything off,
others one feature.  Modules import names from here as if they were here: the name is the last part of the path without
its underscore, and ``..._of`` for what is read from instances (``attribute``).  A row that this torch lacks gives an
``Absent``, which can be imported and complains when it is called (``insides``).  Consequences are sentences with a
name, so that equal ones read alike.
"""

from __future__ import annotations

from typing import Any

from aotgrad.errors import Unsupported
from aotgrad.insides import Inside, Insides, operators

_NOTHING = "nothing is traced, and graphs run eagerly"
_AGAIN = "second derivatives of a compiled graph are refused"
_NETWORKS = "recurrent networks run eagerly"
_EARLY = "a gradient that is asked for in the graph runs eagerly"
_UNWRITTEN = "training with sizes that vary is traced anew in each process"
_PLAIN = "operators defined outside of torch run eagerly"

INSIDES = Insides(
    lambda sentence: Unsupported(sentence, "run the graph eagerly, or install a torch that was tested"),
    [
        # -- tracing
        Inside("torch._subclasses.fake_tensor.FakeTensor", "which has a layout and no data", _NOTHING, essential=True),
        Inside("torch._subclasses.fake_tensor.FakeTensorMode", "which computes layouts", _NOTHING, essential=True),
        Inside(
            "torch._subclasses.fake_tensor.DataDependentOutputException",
            "which says that a number depends on data",
            _NOTHING,
            essential=True,
        ),
        Inside(
            "torch._subclasses.fake_tensor.DynamicOutputShapeException",
            "which says that a size depends on data",
            _NOTHING,
            essential=True,
        ),
        Inside("torch.utils._python_dispatch.TorchDispatchMode", "which sees every operator", _NOTHING, essential=True),
        Inside(
            "torch.utils._python_dispatch.is_traceable_wrapper_subclass",
            "which knows a subclass that wraps tensors",
            _NOTHING,
            essential=True,
        ),
        Inside("torch.utils._pytree", "which flattens arguments and results", _NOTHING, essential=True),
        Inside("torch._C.TensorBase", "which has the methods of tensors", _NOTHING, essential=True),
        Inside(
            "torch._C._current_autograd_node", "which says whether autograd's engine runs", _NOTHING, essential=True
        ),
        Inside("torch._ops.OpOverload", "which is what the nodes of a graph call", _NOTHING, essential=True),
        Inside("torch._ops.OpOverloadPacket", "which names all forms of an operator", _NOTHING, essential=True),
        Inside(
            "torch.ops.aten.add.Tensor._schema",
            "which says what an operator takes",
            _NOTHING,
            essential=True,
            attribute=True,
        ),
        Inside(
            "torch.ops.aten.add.Tensor._op",
            "which runs an operator with the least work",
            _NOTHING,
            essential=True,
            attribute=True,
        ),
        Inside(
            "torch.ops.aten.add.Tensor._opname", "which names an operator", _NOTHING, essential=True, attribute=True
        ),
        Inside(
            "torch.ops.aten.add.Tensor._overloadname", "which names its form", _NOTHING, essential=True, attribute=True
        ),
        Inside(
            "torch._dispatch.python.enable_python_dispatcher", "which prefers rules in Python", _NOTHING, essential=True
        ),
        Inside("torch._C._DisablePythonDispatcher", "which ends that preference", _NOTHING, essential=True),
        Inside("torch._C._DisableTorchDispatch", "which looks below a tensor subclass", _NOTHING, essential=True),
        Inside(
            "torch._C.DisableTorchFunction",
            "which looks at a tensor without code of its class or of a mode",
            _NOTHING,
            essential=True,
        ),
        Inside(
            "torch._C._autograd._get_sequence_nr",
            "which numbers what autograd makes",
            "gradients of gradients of functions with a backward of their own go through what forward computes",
        ),
        Inside(
            "torch.autograd.graph.Node._sequence_nr", "which is that number", _NOTHING, essential=True, attribute=True
        ),
        Inside("torch._C._set_grad_enabled", "which sets the mode without a scope", _NOTHING, essential=True),
        Inside("torch.amp.autocast_mode._enter_autocast", "which a graph enters autocast by", _NOTHING, essential=True),
        Inside("torch.amp.autocast_mode._exit_autocast", "which a graph leaves it by", _NOTHING, essential=True),
        Inside(
            "torch.autograd.grad_mode._enter_inference_mode",
            "which a graph enters inference mode by",
            _NOTHING,
            essential=True,
        ),
        Inside("torch.autograd.grad_mode._exit_inference_mode", "which a graph leaves it by", _NOTHING, essential=True),
        Inside(
            "torch.Tensor._base", "which is the tensor that a view looks at", _NOTHING, essential=True, attribute=True
        ),
        Inside("torch.Tensor._is_zerotensor", "which tells zeros that have no memory", _NOTHING, essential=True),
        Inside(
            "torch.Tensor._version",
            "which shows that a tensor was written to",
            _NOTHING,
            essential=True,
            attribute=True,
        ),
        Inside(
            "torch.UntypedStorage()._cdata", "which is a storage's identity", _NOTHING, essential=True, attribute=True
        ),
        Inside(
            "torch.nn.Module()._parameters",
            "in which a module keeps its parameters",
            _NOTHING,
            essential=True,
            attribute=True,
        ),
        Inside(
            "torch.nn.Module()._buffers",
            "in which a module keeps its buffers",
            _NOTHING,
            essential=True,
            attribute=True,
        ),
        Inside("torch._foreach_copy_", "which writes all changed inputs back at once", _NOTHING, essential=True),
        Inside(
            "torch._prims_common.compute_elementwise_output_logical_to_physical_perm",
            "which says how dropout's mask lies in memory",
            _NOTHING,
            essential=True,
        ),
        Inside("torch.utils._sympy.interp.sympy_interp", "which evaluates sizes", "sizes that vary run eagerly"),
        Inside(
            "torch.utils._sympy.reference.PythonReferenceAnalysis",
            "which evaluates sizes",
            "sizes that vary run eagerly",
        ),
        Inside("torch.utils._sympy.functions", "which sizes are computed by", _UNWRITTEN),
        Inside("torch._guards.Source", "which torch names a symbol by", _UNWRITTEN),
        # -- mutation
        *(
            Inside(f"torch.{name}", why, _NOTHING, essential=True)
            for name, why in (
                ("_enable_functionalization", "which makes writes new values"),
                ("_disable_functionalization", "which ends that"),
                ("_to_functional_tensor", "which wraps a tensor for it"),
                ("_from_functional_tensor", "which takes it out again"),
                ("_is_functional_tensor", "which recognises one"),
                ("_sync", "which brings one up to date"),
                ("_functionalize_has_data_mutation", "which says that data was written"),
                ("_functionalize_has_metadata_mutation", "which says that a layout was changed"),
                ("_functionalize_was_storage_changed", "which says that memory was exchanged"),
                ("_functionalize_replace", "which puts a result where it was written"),
                ("_functionalize_commit_update", "which tells what shares its memory"),
                ("_functionalize_mark_mutation_hidden_from_autograd", "which marks a write through `.data`"),
                ("_functionalize_are_all_mutations_hidden_from_autograd", "which recognises those"),
            )
        ),
        Inside(
            "torch._C._autograd._get_creation_meta", "which says in what mode a view was made", _NOTHING, essential=True
        ),
        Inside("torch._C._autograd._set_creation_meta", "which says it of another view", _NOTHING, essential=True),
        Inside("torch._C._autograd.CreationMeta", "which names these modes", _NOTHING, essential=True),
        Inside(
            "torch._C._autograd._unsafe_set_version_counter",
            "which takes back what was counted to see who counts with whom",
            _NOTHING,
            essential=True,
        ),
        Inside("torch._C.DispatchKey", "which names functionalization", _NOTHING, essential=True),
        Inside(
            "torch._C._dispatch_tls_is_dispatch_key_excluded", "which says whether it is off", _NOTHING, essential=True
        ),
        Inside("torch._C._dispatch_tls_set_dispatch_key_excluded", "which switches it", _NOTHING, essential=True),
        Inside(
            "torch._C._dispatch_tls_set_dispatch_key_included",
            "which has operators taken apart in inference mode",
            _NOTHING,
            essential=True,
        ),
        # -- differentiating
        Inside("torch._decomp.decomposition_table", "in which torch says what its operators are made of", _AGAIN),
        Inside("torch._decomp.get_decompositions", "which selects some of these", "operators are not decomposed"),
        Inside(
            "torch._C._autograd._get_current_graph_task_keep_graph",
            "which says whether saved tensors may be freed",
            "they are kept until the end of backward",
        ),
        Inside(
            "torch._C._autograd.SavedTensor.unpack",
            "which reads one of the tensors that a node holds",
            "those that are read apart are kept with their versions besides",
            since="2.12",
        ),
        Inside(
            "torch._C._functorch.is_functorch_wrapped_tensor",
            "which knows what `vmap` and `grad` hand over",
            _NOTHING,
            essential=True,
        ),
        Inside(
            "torch._C._functorch.is_legacy_batchedtensor",
            "which knows a gradient that is several",
            _NOTHING,
            essential=True,
        ),
        Inside("torch._C._functorch.maybe_current_level", "which says whether `vmap` runs", _NOTHING, essential=True),
        *(
            Inside(f"torch._C._functorch.{name}", why, "results under `vmap` may be views where eager's are none")
            for name, why in (
                ("is_batchedtensor", "which knows what `vmap` hands over"),
                ("get_unwrapped", "which takes the tensor out of it"),
                ("maybe_get_bdim", "which says along which dimension there are several"),
                ("maybe_get_level", "which says of which `vmap` it is"),
                ("_add_batch_dim", "which makes such a tensor"),
            )
        ),
        Inside("torch.ops.aten._grouped_mm", "whose fake refuses types", "graphs with such products run eagerly"),
        Inside("torch._C._is_any_autocast_enabled", "which says whether a caller casts", _NOTHING, essential=True),
        Inside("torch._C._DisableAutocast", "which keeps autocast out of second gradients and of writes", _AGAIN),
        Inside(
            "torch.autograd._is_checkpoint_valid",
            "which says whether all gradients are asked for",
            _NOTHING,
            essential=True,
        ),
        Inside("torch.autograd._make_grads", "which makes the gradients that a call left out", _EARLY),
        Inside("torch.autograd.graph._engine_run_backward", "which runs autograd's engine", _EARLY),
        Inside("torch._native_batch_norm_legit", "which is a batch norm that tells its statistics", _EARLY),
        # -- operators defined outside of torch
        Inside("torch._C._dispatch_has_kernel_for_dispatch_key", "which says what kernels there are", _PLAIN),
        Inside("torch._C._dispatch_kernel_for_dispatch_key_is_fallthrough", "which says what these do", _PLAIN),
        # -- recurrent networks
        Inside("torch._C._AutoDispatchBelowAutograd", "which runs a kernel without autograd", _NETWORKS),
        Inside("torch._C._get_mkldnn_enabled", "which says whether oneDNN may run", _NETWORKS),
        Inside("torch._C._set_mkldnn_enabled", "which switches it", _NETWORKS),
        *operators(
            """
            _adaptive_avg_pool2d _cdist_forward _cudnn_init_dropout_state _cudnn_rnn _cudnn_rnn_backward
            _cudnn_rnn_flatten_weight _efficientzerotensor _fft_c2c _fft_c2r _fft_r2c _fused_rms_norm
            _fused_rms_norm_backward _lazy_clone _linalg_det _linalg_slogdet _linalg_solve_ex _local_scalar_dense
            _log_softmax _log_softmax_backward_data
            _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
            _prelu_kernel _prelu_kernel_backward _reshape_alias _safe_softmax _scaled_dot_product_cudnn_attention
            _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
            _scaled_dot_product_flash_attention_for_cpu _softmax _softmax_backward_data _to_copy _unique2 _unsafe_view
            _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact2d _upsample_nearest_exact3d
            _weight_norm_interface_backward
            """,
            why="which has a rule of its own",
            without="no graph of this torch holds it",
        ),
    ],
)
aten = INSIDES.operators("torch.ops.aten")


def __getattr__(name: str) -> Any:
    return INSIDES.get(name)
