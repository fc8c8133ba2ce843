"""Preparation of graphs from anywhere for the lowerings: ATen operators, functional, with sizes known.

A graph that is so already passes untouched.  Any other (torch functions, modules, in-place operators, operators that
are better taken apart) is traced again on fake tensors, without gradients.

Tracing imports sympy, which costs half a second: a graph that is ready (as one from aotgrad) does not pay that.
"""

from __future__ import annotations

import contextlib
import linecache
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import fx
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

from inductor.calling import span
from inductor.errors import UnsupportedGraph
from inductor.lowerings import LIBRARY, LOWERINGS
from inductor.refused import is_unimplemented
from inductor.rewrites.redundant import MAY_RAISE
from inductor.state import STATE
from inductor.torch_versions import (
    INSIDES,
    DispatchKey,
    FakeTensor,
    FakeTensorMode,
    OpOverload,
    aten,
    decomposition_table,
    disable_functionalization,
    enable_functionalization,
    from_functional_tensor,
    is_functional_tensor,
    pytree,
    schema_of,
    sync,
    to_functional_tensor,
)

DECOMPOSED = (
    "_chunk_cat", "_fused_rms_norm", "_fused_rms_norm_backward", "_prelu_kernel", "_prelu_kernel_backward",
    "_reshape_alias", "_safe_softmax", "_unsafe_index", "_unsafe_index_put", "_unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate", "_weight_norm_interface", "addr", "affine_grid_generator", "alias_copy",
    "aminmax", "baddbmm", "binary_cross_entropy", "binary_cross_entropy_backward", "binary_cross_entropy_with_logits",
    "block_diag", "bucketize", "channel_shuffle", "col2im", "count_nonzero", "cudnn_batch_norm",
    "cudnn_batch_norm_backward", "diag_embed", "diagonal_backward", "diagonal_copy", "dist", "expand_copy", "glu",
    "glu_backward", "grid_sampler_2d", "hann_window", "huber_loss", "huber_loss_backward", "im2col", "isin", "ldexp",
    "linalg_cross", "linspace", "log_sigmoid_backward", "log_sigmoid_forward", "logaddexp2", "logit_backward",
    "miopen_batch_norm_backward", "mish_backward", "mse_loss", "mse_loss_backward", "mvlgamma", "nansum", "narrow_copy",
    "native_group_norm_backward", "nll_loss2d_backward", "nll_loss2d_forward", "nll_loss_backward", "nll_loss_forward",
    "norm", "permute_copy", "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d_backward",
    "reflection_pad2d_backward", "reflection_pad3d_backward", "renorm", "rot90", "rrelu_with_noise_backward",
    "select_backward", "slice_backward", "smooth_l1_loss", "soft_margin_loss", "soft_margin_loss_backward",
    "special_entr", "special_log_ndtr", "special_xlog1py", "split_with_sizes_copy", "squeeze_copy", "std_mean",
    "t_copy", "take", "trace", "transpose_copy", "tril_indices", "triu_indices", "unbind_copy", "unfold_backward",
    "unfold_copy", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze_copy", "upsample_bicubic2d", "vdot",
    "view_copy", "zero",
)  # fmt: skip
"""Operators that torch's own decompositions express in operators with a lowering, to our advantage."""


def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """The decompositions that a tracer should apply before it hands over a graph."""
    INSIDES.require_essentials()
    table: dict[OpOverload, Callable[..., Any]] = {
        overload: decomposition_table[overload]
        for name in DECOMPOSED
        if (packet := getattr(aten, name, None)) is not None
        for overload in (getattr(packet, kind) for kind in packet.overloads())
        if overload in decomposition_table
        and overload not in LOWERINGS
        and overload not in LIBRARY
        and not schema_of(overload).is_mutable
    }
    # Ours come last, so that they replace torch's.
    return {overload: _where_right(overload, function) for overload, function in {**table, **_OWN}.items()}


def _unscaled(
    gradients: Sequence[torch.Tensor], found: torch.Tensor, scale: torch.Tensor
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The work of a gradient scaler: the gradients scaled, and whether one of them is infinite or NaN."""
    scaled = []
    for gradient in gradients:
        found = torch.where(gradient.isfinite().all(), found, torch.ones_like(found))
        wide = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
        scaled.append((wide * scale.reshape(())).to(gradient.dtype))
    return scaled, found


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    """Log-softmax, taken apart although there is a lowering: a gradient can then recompute it from ``x`` and two
    numbers per row, where the result would have to be saved."""
    if not x.numel():
        return NotImplemented
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    shifted = wide - wide.amax(dim, keepdim=True)
    result = shifted - shifted.exp().sum(dim, keepdim=True).log()
    return (result if half_to_float else result.to(x.dtype)).contiguous()  # as eager's, whatever the strides of x


def _index_fill(x: torch.Tensor, dim: int, index: torch.Tensor, value: object) -> Any:
    """``index_fill`` with negative positions counted from the end, as torch's kernels do; its decomposition refuses
    them."""
    if x.ndim:
        index = torch.where(index < 0, index + x.shape[dim], index)
    if isinstance(value, torch.Tensor):
        # As a fill by mask, which refuses a number that does not fit, as torch's kernel does.
        value = x.new_zeros(()).masked_fill(x.new_ones((), dtype=torch.bool), value)
    return decomposition_table[aten.index_fill.int_Scalar](x, dim, index, value)


def _picked_alone(
    grad: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore: int,
    total: torch.Tensor,
) -> torch.Tensor:
    """The gradient of ``nll_loss`` for the target class alone; torch's decomposition multiplies that of all classes by
    zeros, which makes NaN of infinities."""
    dim = 0 if x.ndim < 2 else 1
    target = (target[0] if x.ndim == 1 and target.ndim else target).unsqueeze(dim)
    # Where the target is ignored there is no class to pick: class 0 stands in, with a gradient of 0.
    counts = target != ignore
    row = grad / total if reduction == 1 else grad
    row = row.unsqueeze(dim) if x.ndim > row.ndim > 0 else row
    if weight is not None:
        row = row * weight.view(-1, *[1] * (x.ndim - dim - 1))
    row = torch.where(counts, -row, 0)
    is_picked = torch.zeros_like(x).scatter(dim, torch.where(counts, target, 0), 1.0) != 0
    return torch.where(is_picked, row, 0)


def _soft_margin_backward(grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> Any:
    """The gradient of ``soft_margin_loss`` by the formula of torch's kernel; ``sigmoid(x) - 1``, that of its
    decomposition, loses all digits where the margin is large."""
    if not x.numel():
        return NotImplemented
    odds = (-target * x).exp()
    return target * odds * (-1.0 / x.numel() if reduction == 1 else -1.0) / (odds + 1) * grad


def _smooth_l1_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, beta: float
) -> torch.Tensor:
    """The gradient as torch's kernels have it, where NaN lies on neither side; the decomposition takes its sign, 0."""
    wide = torch.promote_types(x.dtype, torch.float32)
    distance, step = x.to(wide) - target.to(wide), grad.to(wide)
    if reduction == 1:
        step = step / x.numel()
    inside = step * distance / beta
    return torch.where(distance <= -beta, -step, torch.where(distance >= beta, step, inside)).to(x.dtype)


_SMALLEST: float = struct.unpack("f", struct.pack("f", 1e-12))[0]


def _binary_cross_entropy_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, reduction: int = 1
) -> torch.Tensor:
    """The gradient as torch's kernels have it, whose smallest divisor is a number of single precision in any dtype."""
    wide = torch.promote_types(x.dtype, torch.float32)
    probability = x.to(wide)
    slope = (probability - target) / ((1 - probability) * probability).clamp(min=_SMALLEST)
    slope = grad * slope if weight is None else grad * slope * weight
    return (slope / x.numel() if reduction == 1 else slope).to(x.dtype)


_OWN: Mapping[OpOverload, Callable[..., Any]] = {
    aten._log_softmax.default: _log_softmax,
    aten.index_fill.int_Scalar: _index_fill,
    aten.index_fill.int_Tensor: _index_fill,
    aten.nll_loss_backward.default: _picked_alone,
    aten.nll_loss2d_backward.default: _picked_alone,
    aten.binary_cross_entropy_backward.default: _binary_cross_entropy_backward,
    aten.soft_margin_loss_backward.default: _soft_margin_backward,
    aten.smooth_l1_loss_backward.default: _smooth_l1_backward,
    aten._amp_foreach_non_finite_check_and_unscale.default: _unscaled,
}


def _largest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max if dtype.is_floating_point else float("inf")


_RIGHT: Mapping[OpOverload, Callable[..., bool]] = {
    aten.bucketize.Tensor: lambda x, boundaries, **_: bool(boundaries.numel() and x.ndim),
    aten.take.default: lambda x, index: bool(index.ndim),
    # In half precision torch's kernel rounds it to infinity.
    aten.smooth_l1_loss.default: lambda x, y, reduction=1, beta=1.0: beta <= _largest(x.dtype),
    # Powers of two by themselves are infinite long before what is scaled by them.
    aten.ldexp.Tensor: lambda x, exponent: not x.is_floating_point() or exponent.is_floating_point(),
    # Torch's kernel refuses zero, which a number that varies may be.
    aten.mvlgamma.default: lambda x, p: isinstance(p, int) and p > 0,
    # Torch's kernel on CPUs refuses what is not within 0 and 1.
    aten.binary_cross_entropy.default: lambda x, *_, **__: x.device.type != "cpu",
    # Torch's kernels write these into a result of the first operand's size.
    aten.soft_margin_loss.default: lambda x, target, *_: _spreads_over(target, x),
    aten.binary_cross_entropy_with_logits.default: lambda x, _, weight=None, positive=None, *__: all(
        given is None or _spreads_over(given, x) for given in (weight, positive)
    ),
    # Torch's kernel on CPUs multiplies by weights of NaN what it masks, and is up to a hundred times faster.
    aten.grid_sampler_2d.default: lambda x, *_, **__: x.device.type != "cpu",
    # Of bytes torch's kernels compute in integers.
    **dict.fromkeys(
        (aten.upsample_bicubic2d.default, aten.upsample_bicubic2d.vec), lambda x, *_, **__: x.dtype != torch.uint8
    ),
    # Another size would be broadcast, where torch's kernel refuses it.
    aten.nll_loss2d_forward.default: lambda x, target, weight, *_: (
        x.ndim == 4 and target.shape == (x.shape[0], *x.shape[2:]) and (weight is None or weight.shape == x.shape[1:2])
    ),
    **dict.fromkeys(
        (getattr(aten.linspace, kind) for kind in ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")),
        lambda start, end, *_, dtype=None, **__: _is_plain_range(start, end, dtype or torch.get_default_dtype()),
    ),
}
"""The arguments for which torch's decompositions give eager's results, for those that do not always."""


def _is_plain_range(start: Any, end: Any, dtype: torch.dtype) -> bool:
    """True if torch's kernel refuses neither end and the steps between them are finite; the end in a tensor is
    unknown."""
    if not dtype.is_floating_point or isinstance(start, torch.Tensor) or isinstance(end, torch.Tensor):
        return False
    largest = _largest(dtype)
    return all(abs(end) <= largest for end in (start, end, end - start))


def _spreads_over(x: torch.Tensor, like: torch.Tensor) -> bool:
    """True if ``x`` can be broadcast to the size of ``like``."""
    if x.ndim > like.ndim:
        return False
    return all(size == 1 or size == wanted for size, wanted in zip(x.shape[::-1], like.shape[::-1], strict=False))


def _where_right(overload: OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition for the arguments that torch's kernel computes and where it gives eager's results; for others
    the operator stays whole."""
    right = _RIGHT.get(overload, lambda *_, **__: True)

    def decomposed(*args: object, **kwargs: object) -> Any:
        if not right(*args, **kwargs) or is_unimplemented(overload, args, kwargs):
            return NotImplemented
        return function(*args, **kwargs)

    return decomposed


def prepare(gm: GraphModule, example_inputs: Sequence[object]) -> GraphModule:
    """A functional ATen graph with ``meta['val']`` that computes what ``gm`` does."""
    for number, value in enumerate(example_inputs):
        if isinstance(value, torch.Tensor) and (value.layout != torch.strided or value.is_quantized):
            kind = "quantized" if value.is_quantized else f"of layout {value.layout}"
            raise UnsupportedGraph(f"input {number} is {kind}: only plain strided tensors can be compiled")
    prepared = gm if is_ready(gm) else traced_with(gm, example_inputs)
    _refuse_shared(prepared, example_inputs)
    return prepared


def is_ready(gm: GraphModule) -> bool:
    """True if the lowerings can take the graph as it is."""
    return all(_is_ready(node) for node in gm.graph.nodes)


def traced_with(gm: GraphModule, example_inputs: Sequence[object], held: Sequence[torch.Tensor] = ()) -> GraphModule:
    """The graph traced again on fake tensors into functional ATen operators; tensors of its modules that are ``held``
    become further inputs."""
    seen = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
    # What an earlier tracer saw is better than examples: symbolic sizes stay symbolic.
    values = list(example_inputs) if any(value is None for value in seen) else seen
    mode = _mode_of(values)
    fakes = [_fake(mode, value) for value in (*values, *held)]
    # A graph may hold constants that are real tensors: the mode makes fake tensors of them.
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        with STATE.tracer, torch.no_grad(), mode, _symbols_of_its_own(mode.shape_env):
            # Writes through views become new values first; functionalization sees the operators before decompositions
            # do.
            return make_fx(_functional(gm, held), decomposition_table=decompositions())(*fakes)
    except Exception as error:  # the graph's own, or one of the tracer's: running it tells
        raise UnsupportedGraph(_failure(gm, values, error)) from error
    finally:
        mode.allow_non_fake_inputs = allowed


@contextlib.contextmanager
def _symbols_of_its_own(env: object) -> Iterator[None]:
    """Keeps this trace from taking up data-dependent sizes of another.  The tracer holds such a size until an
    operator's results show it; those that another trace left waiting would be looked for in the first results of this
    one."""
    waiting: list[object] = getattr(env, "pending_fresh_unbacked_symbols", [])
    before = [*waiting]
    waiting.clear()
    try:
        yield
    finally:
        waiting[:] = before


def _failure(gm: GraphModule, values: Sequence[object], error: Exception) -> str:
    """The message for a graph that cannot be traced: the line of its own code, the inputs, and the error."""
    line, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is gm.forward.__code__:
            line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).partition(";")[0].strip()
        trace = trace.tb_next
    placeholders = gm.graph.find_nodes(op="placeholder")
    inputs = ", ".join(f"{node.name} is {_seen(value)}" for node, value in zip(placeholders, values, strict=False))
    reason = (str(error).strip().splitlines() or ["no reason given"])[0]
    return f"it cannot be traced{f' at `{line}`' if line else ''} where {inputs}: {type(error).__name__}: {reason}"


def _seen(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} of size {tuple(value.shape)} on {value.device.type}"
    return repr(value)


def _refuse_shared(gm: GraphModule, example_inputs: Sequence[object]) -> None:
    """Raises where an input that the graph writes shares memory with another: kernels are compiled as if they were
    apart."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    written = {node.args[0] for node in gm.graph.nodes if node.op == "call_function" and _writes_input(node)}
    if not written:
        return
    spans = [
        (*span(value), number, node in written)
        for number, (node, value) in enumerate(zip(placeholders, example_inputs, strict=False))
        if isinstance(value, torch.Tensor) and not hasattr(value, "fake_mode")
    ]
    # One sweep over the spans in the order of their addresses: an overlap is with the span that reaches furthest so
    # far.
    end, last, any_written = 0, -1, False
    for start, stop, number, is_written in sorted(spans):
        shared = start < min(end, stop)
        if shared and (is_written or any_written):
            raise UnsupportedGraph(f"inputs {last} and {number} share memory, and the graph writes to it")
        any_written = is_written or (shared and any_written)
        if stop > end:
            end, last = stop, number


def _mode_of(values: Sequence[object]) -> Any:
    """The mode the inputs are fake in, or a new one."""
    found = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    return FakeTensorMode(allow_non_fake_inputs=True) if found is None else found


def _fake(mode: Any, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if not hasattr(value, "fake_mode"):
        return mode.from_tensor(value.detach(), static_shapes=True)
    if value.fake_mode is mode:
        return value.detach()
    with mode:  # a tracer of plain tensors gives a mode of its own to each
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)


def _is_ready(node: Node) -> bool:
    """True if the lowerings can take the node as it is."""
    if node.op in ("output", "get_attr"):
        return True
    if node.op == "placeholder":
        return "val" in node.meta
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return isinstance(node.args[1], int) and not isinstance(node.args[0].meta.get("val"), torch.Tensor)
    # Arithmetic on symbolic sizes, which the tracer has done.
    if not isinstance(node.target, OpOverload):
        return "val" in node.meta and isinstance(node.meta["val"], torch.SymInt | torch.SymFloat | torch.SymBool)
    if node.target.namespace == "aten" and schema_of(node.target).is_mutable:
        return _writes_input(node)
    if isinstance(node.meta.get("val"), torch.SymInt):
        return True
    if "val" not in node.meta and schema_of(node.target).returns:
        return False
    if node.target in LOWERINGS or node.target in LIBRARY:
        return True
    return node.target.overloadpacket.__name__ not in DECOMPOSED and not _is_composite(node.target)


def _writes_input(node: Node) -> bool:
    """True for a ``copy_`` into a graph input, by which functional graphs say that it is changed."""
    if node.target is not aten.copy_.default:
        return False
    target = node.args[0]
    return isinstance(target, Node) and target.op == "placeholder"


def _is_composite(overload: OpOverload) -> bool:
    """True if the operator is made of others without a gradient formula of its own, so that tracing takes it apart."""
    return overload.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)


def _functional(gm: GraphModule, held: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """``gm`` with its mutations replayed on the inputs at the end, and none in between; the last inputs stand for what
    it holds."""

    def run(*args: object) -> Any:
        wrapped = [to_functional_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
        enable_functionalization(reapply_views=True)
        try:
            with _in_place_of(gm, held, wrapped[len(wrapped) - len(held) :]):
                outputs = _run(gm, wrapped[: len(wrapped) - len(held)])
        finally:
            disable_functionalization()
        # A graph that writes its inputs ends with one copy into each: the form in which the lowerings take writes.
        written: dict[int, torch.Tensor] = {}
        for arg, functional in zip(args, wrapped, strict=True):
            if isinstance(arg, torch.Tensor):
                sync(functional)
                changed = from_functional_tensor(functional)
                if changed is not arg:
                    arg.copy_(changed)
                    written[_memory(functional)] = arg
        return pytree.tree_map(lambda value: _unwrapped(value, written), outputs)

    return run


@contextlib.contextmanager
def _in_place_of(gm: GraphModule, held: Sequence[torch.Tensor], others: Sequence[object]) -> Iterator[None]:
    """Has the graph's modules hold ``others`` for a while."""
    new = {id(tensor): other for tensor, other in zip(held, others, strict=True)}
    places = [
        (values, name, value)
        for module in gm.modules()
        for values in (module._parameters, module._buffers, module.__dict__)
        for name, value in (values.items() if held else ())
        if id(value) in new
    ]
    for values, name, value in places:
        values[name] = new[id(value)]
    try:
        yield
    finally:
        for values, name, value in places:
            values[name] = value


def _run(gm: GraphModule, args: Sequence[object]) -> Any:
    """Runs the graph under the tracer, carrying marks of its nodes over to the nodes traced from them."""
    if any(node.meta.get(MAY_RAISE) or _name(node.target) in _SPREADS for node in gm.graph.nodes):
        return _Marking(gm).run(*args)
    return gm.forward(*args)  # calling it would print an error a second time


class _Marking(fx.Interpreter):
    """An interpreter that runs a graph under a tracer and carries the mark ``MAY_RAISE`` over to the new nodes."""

    extra_traceback = False

    def run_node(self, n: Node) -> Any:
        mode = get_proxy_mode()
        before = 0 if mode is None else len(mode.tracer.graph.nodes)
        result = super().run_node(n)
        if mode is not None and n.meta.get(MAY_RAISE):
            nodes = mode.tracer.graph.nodes
            for made in islice(reversed(nodes), len(nodes) - before):
                made.meta[MAY_RAISE] = True
        return result

    def call_function(self, target: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        return _unspread(target, args, super().call_function(target, args, kwargs))

    def call_method(self, target: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        return _unspread(target, args, super().call_method(target, args, kwargs))


_SPREADS = frozenset({"expand", "expand_as", "broadcast_to"})


def _name(target: object) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", "")).partition(".")[0]


def _unspread(target: Any, args: Sequence[Any], result: Any) -> Any:
    """A result of ``expand`` that enlarges nothing, made a plain view: writes through it become new values, while
    writes through copies are, to functionalization, differences from the old ones, which may be infinite."""
    if _name(target) not in _SPREADS or not args:
        return result
    new = result.dim() - args[0].dim()
    return result if tuple(result.shape) != (1,) * new + tuple(args[0].shape) else args[0][(None,) * new + (...,)]


def _unwrapped(value: object, written: Mapping[int, torch.Tensor]) -> Any:
    """A result, out of its functional wrapper; one that lies in an input that is written becomes that input or a window
    on it, as in eager."""
    if not isinstance(value, torch.Tensor) or not is_functional_tensor(value):
        return value
    sync(value)
    if (home := written.get(_memory(value))) is None:
        return from_functional_tensor(value)
    if (value.size(), value.stride()) == (home.size(), home.stride()):
        return home
    return home.as_strided(value.size(), value.stride(), value.storage_offset())


def _memory(value: torch.Tensor) -> int:
    """The identity of the storage behind a functional tensor."""
    return int(value.untyped_storage()._cdata)
