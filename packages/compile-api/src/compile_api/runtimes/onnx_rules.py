"""What each ATen operator is in ONNX: a table of small functions.  Sizes are known, so attributes are plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from compile_api.runtimes.onnx_graph import Builder, Name, argument, dtype_of, promoted, rule, sizes_of, value_of
from compile_api.torch_versions import aten, schema_of

# -- element by element -------------------------------------------------------------------------------------------

_UNARY = {
    aten.neg: "Neg", aten.abs: "Abs", aten.exp: "Exp", aten.log: "Log", aten.sqrt: "Sqrt", aten.sigmoid: "Sigmoid",
    aten.reciprocal: "Reciprocal", aten.tanh: "Tanh", aten.sin: "Sin", aten.cos: "Cos", aten.erf: "Erf",
    aten.floor: "Floor", aten.ceil: "Ceil", aten.round: "Round", aten.sign: "Sign", aten.relu: "Relu",
    aten.asin: "Asin", aten.acos: "Acos", aten.atan: "Atan", aten.tan: "Tan", aten.sinh: "Sinh", aten.cosh: "Cosh",
    aten.logical_not: "Not", aten.isnan: "IsNaN", aten.isinf: "IsInf",
}  # fmt: skip
_BINARY = {
    aten.add: "Add", aten.sub: "Sub", aten.mul: "Mul", aten.div: "Div", aten.pow: "Pow",
    aten.maximum: "Max", aten.minimum: "Min",
}  # fmt: skip
_COMPARISONS = {
    aten.eq: "Equal",
    aten.lt: "Less",
    aten.le: "LessOrEqual",
    aten.gt: "Greater",
    aten.ge: "GreaterOrEqual",
}
_TRUTH = {aten.logical_and: "And", aten.logical_or: "Or", aten.logical_xor: "Xor"}


def _overloads(packet: Any, *names: str) -> list[Any]:
    return [getattr(packet, name) for name in names if hasattr(packet, name)]


def _unary(operator: str) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        inside = dtype_of(node) if operator != "Not" else torch.bool
        if operator in ("IsNaN", "IsInf"):
            inside = dtype_of(node.args[0])
        return b.add(operator, b.of(node.args[0], inside))

    return write


def _binary(operator: str) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        left, right = node.args[:2]
        alpha = node.kwargs.get("alpha", 1)
        dtype = dtype_of(node)
        second = b.of(right, dtype)
        if alpha != 1:
            second = b.add("Mul", second, b.constant(alpha, dtype))
        return b.add(operator, b.of(left, dtype), second)

    return write


def _comparison(operator: str) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        left, right = node.args[:2]
        dtype = promoted(left, right)
        if dtype == torch.bool:
            dtype = torch.int32
        return b.add(operator, b.of(left, dtype), b.of(right, dtype))

    return write


def _truth(operator: str) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        return b.add(operator, b.of(node.args[0], torch.bool), b.of(node.args[1], torch.bool))

    return write


for _packet, _operator in _UNARY.items():
    rule(_packet.default)(_unary(_operator))
for _packet, _operator in _BINARY.items():
    rule(*_overloads(_packet, "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "default"))(_binary(_operator))
for _packet, _operator in _COMPARISONS.items():
    rule(*_overloads(_packet, "Tensor", "Scalar"))(_comparison(_operator))
for _packet, _operator in _TRUTH.items():
    rule(_packet.default)(_truth(_operator))


@rule(aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor)
def bitwise(b: Builder, node: fx.Node) -> Name:
    kind = {"and": "And", "or": "Or", "xor": "Xor"}[str(schema_of(node.target).name).rpartition("_")[2]]
    dtype = dtype_of(node)
    operator = kind if dtype == torch.bool else f"Bitwise{kind}"
    return b.add(operator, b.of(node.args[0], dtype), b.of(node.args[1], dtype))


@rule(aten.bitwise_not.default)
def bitwise_not(b: Builder, node: fx.Node) -> Name:
    return b.add("Not" if dtype_of(node) == torch.bool else "BitwiseNot", b.of(node.args[0]))


@rule(aten.ne.Tensor, aten.ne.Scalar)
def not_equal(b: Builder, node: fx.Node) -> Name:
    return b.add("Not", _comparison("Equal")(b, node))


@rule(aten.rsqrt.default)
def rsqrt(b: Builder, node: fx.Node) -> Name:
    return b.add("Reciprocal", b.add("Sqrt", b.of(node.args[0], dtype_of(node))))


@rule(aten.log1p.default)
def log1p(b: Builder, node: fx.Node) -> Name:
    dtype = dtype_of(node)
    return b.add("Log", b.add("Add", b.of(node.args[0], dtype), b.constant(1, dtype)))


@rule(aten.gelu.default)
def gelu(b: Builder, node: fx.Node) -> Name:
    return b.add("Gelu", b.of(node.args[0]), approximate=node.kwargs.get("approximate", "none"))


@rule(aten.leaky_relu.default)
def leaky_relu(b: Builder, node: fx.Node) -> Name:
    return b.add("LeakyRelu", b.of(node.args[0]), alpha=float(argument(node, 1, "negative_slope", 0.01)))


@rule(aten.clamp.default, aten.hardtanh.default)
def clamp(b: Builder, node: fx.Node) -> Name:
    dtype = dtype_of(node)
    defaults = (-1.0, 1.0) if node.target is aten.hardtanh.default else (None, None)
    low, high = argument(node, 1, "min", defaults[0]), argument(node, 2, "max", defaults[1])
    name = b.of(node.args[0], dtype)
    name = name if low is None else b.add("Max", name, b.constant(low, dtype))
    return name if high is None else b.add("Min", name, b.constant(high, dtype))


@rule(aten.where.self)
def where(b: Builder, node: fx.Node) -> Name:
    condition, left, right = node.args
    return b.add("Where", b.of(condition, torch.bool), b.of(left, dtype_of(node)), b.of(right, dtype_of(node)))


@rule(
    aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default, aten.contiguous.default
)
def same(b: Builder, node: fx.Node) -> Name:
    return b.add("Identity", b.of(node.args[0]))


@rule(aten._to_copy.default)
def to_copy(b: Builder, node: fx.Node) -> Name:
    return b.cast(b.of(node.args[0]), dtype_of(node))


# -- reductions ---------------------------------------------------------------------------------------------------


def _axes(node: fx.Node, position: int = 1, name: str = "dim") -> list[int]:
    dims = argument(node, position, name)
    rank = len(sizes_of(node.args[0]))
    if dims is None or dims == []:
        return list(range(rank))
    return [dim % max(rank, 1) for dim in ([dims] if isinstance(dims, int) else dims)]


def _reduce(b: Builder, operator: str, name: Name, axes: Sequence[int], keepdim: bool) -> Name:
    return b.add(operator, name, b.constant(list(axes)), keepdims=int(keepdim))


_REDUCTIONS = {
    aten.sum.dim_IntList: "ReduceSum", aten.sum.default: "ReduceSum", aten.mean.dim: "ReduceMean",
    aten.mean.default: "ReduceMean", aten.amax.default: "ReduceMax", aten.amin.default: "ReduceMin",
}  # fmt: skip


def _reduction(operator: str, has_dim: bool) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        axes = _axes(node) if has_dim else list(range(len(sizes_of(node.args[0]))))
        keep = bool(argument(node, 2, "keepdim", False)) if has_dim else False
        return _reduce(b, operator, b.of(node.args[0], dtype_of(node)), axes, keep)

    return write


for _target, _operator in _REDUCTIONS.items():
    rule(_target)(
        _reduction(_operator, "default" not in str(_target) or "amax" in str(_target) or "amin" in str(_target))
    )


@rule(aten.var.correction)
def variance(b: Builder, node: fx.Node) -> Name:
    axes, dtype = _axes(node), dtype_of(node)
    name = b.of(node.args[0])
    centred = b.add("Sub", name, _reduce(b, "ReduceMean", name, axes, True))
    squares = _reduce(b, "ReduceSum", b.add("Mul", centred, centred), axes, bool(node.kwargs.get("keepdim", False)))
    count = math.prod(sizes_of(node.args[0])[axis] for axis in axes)
    correction = node.kwargs.get("correction")
    return b.add("Div", squares, b.constant(count - (1 if correction is None else correction), dtype))


@rule(aten.argmax.default)
def argmax(b: Builder, node: fx.Node) -> Name:
    dim, keep = argument(node, 1, "dim"), bool(argument(node, 2, "keepdim", False))
    if dim is None:
        flat = b.add("Reshape", b.of(node.args[0]), b.constant([-1]))
        return b.add("ArgMax", flat, axis=0, keepdims=0)
    return b.add("ArgMax", b.of(node.args[0]), axis=dim, keepdims=int(keep))


@rule(aten.cumsum.default)
def cumsum(b: Builder, node: fx.Node) -> Name:
    return b.add("CumSum", b.of(node.args[0], dtype_of(node)), b.constant(node.args[1]))


@rule(aten._softmax.default, aten._log_softmax.default)
def softmax(b: Builder, node: fx.Node) -> Name:
    operator = "Softmax" if node.target is aten._softmax.default else "LogSoftmax"
    return b.add(operator, b.of(node.args[0], dtype_of(node)), axis=node.args[1])


# -- shapes -------------------------------------------------------------------------------------------------------


@rule(
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default, aten.squeeze.dim,
    aten.squeeze.dims, aten.squeeze.default, aten.flatten.using_ints,
)  # fmt: skip
def reshape(b: Builder, node: fx.Node) -> Name:
    return b.add("Reshape", b.of(node.args[0]), b.constant(sizes_of(node), torch.int64), allowzero=1)


@rule(aten.permute.default)
def permute(b: Builder, node: fx.Node) -> Name:
    dims = [dim % len(node.args[1]) for dim in node.args[1]]
    return b.add("Transpose", b.of(node.args[0]), perm=dims)


@rule(aten.t.default, aten.transpose.int)
def transpose(b: Builder, node: fx.Node) -> Name:
    order = list(range(len(sizes_of(node))))
    left, right = (node.args[1], node.args[2]) if len(node.args) == 3 else (0, -1)
    if order:
        order[left], order[right] = order[right], order[left]
    return b.add("Transpose", b.of(node.args[0]), perm=order)


@rule(aten.expand.default)
def expand(b: Builder, node: fx.Node) -> Name:
    return b.add("Expand", b.of(node.args[0]), b.constant(sizes_of(node), torch.int64))


@rule(aten.slice.Tensor)
def slice_(b: Builder, node: fx.Node) -> Name:
    dim = argument(node, 1, "dim", 0)
    start, end = argument(node, 2, "start") or 0, argument(node, 3, "end")
    step = argument(node, 4, "step", 1)
    last = sizes_of(node.args[0])[dim] if end is None else end
    bounds = [b.constant([each]) for each in (start, last, dim, step)]
    return b.add("Slice", b.of(node.args[0]), *bounds)


@rule(aten.select.int)
def select(b: Builder, node: fx.Node) -> Name:
    return b.add("Gather", b.of(node.args[0]), b.constant(node.args[2]), axis=node.args[1])


@rule(aten.cat.default)
def cat(b: Builder, node: fx.Node) -> Name:
    parts = [each for each in node.args[0] if sizes_of(each) != [0]]
    return b.add("Concat", *(b.of(each, dtype_of(node)) for each in parts), axis=argument(node, 1, "dim", 0))


@rule(aten.split_with_sizes.default, aten.split.Tensor)
def split(b: Builder, node: fx.Node) -> Sequence[Name]:
    dim = argument(node, 2, "dim", 0)
    lengths = [int(part.shape[dim]) for part in value_of(node)]
    return b.add_many("Split", len(lengths), b.of(node.args[0]), b.constant(lengths), axis=dim)


@rule(aten.constant_pad_nd.default)
def pad(b: Builder, node: fx.Node) -> Name:
    rank, given = len(sizes_of(node)), list(node.args[1])
    before, after = [0] * rank, [0] * rank
    for pair in range(len(given) // 2):
        before[rank - 1 - pair], after[rank - 1 - pair] = given[2 * pair], given[2 * pair + 1]
    value = b.constant(argument(node, 2, "value", 0), dtype_of(node))
    return b.add("Pad", b.of(node.args[0]), b.constant(before + after), value)


@rule(aten.embedding.default)
def embedding(b: Builder, node: fx.Node) -> Name:
    return b.add("Gather", b.of(node.args[0]), b.of(node.args[1]), axis=0)


@rule(aten.index_select.default)
def index_select(b: Builder, node: fx.Node) -> Name:
    return b.add("Gather", b.of(node.args[0]), b.of(node.args[2]), axis=node.args[1])


@rule(aten.gather.default)
def gather(b: Builder, node: fx.Node) -> Name:
    return b.add("GatherElements", b.of(node.args[0]), b.of(node.args[2]), axis=node.args[1])


@rule(aten.tril.default, aten.triu.default)
def triangle(b: Builder, node: fx.Node) -> Name:
    upper = int(node.target is aten.triu.default)
    return b.add("Trilu", b.of(node.args[0]), b.constant(argument(node, 1, "diagonal", 0)), upper=upper)


@rule(aten.select_scatter.default)
def select_scatter(b: Builder, node: fx.Node) -> Name:
    """What stands before, the new slice, what stands behind."""
    x, source, dim, index = node.args
    size = sizes_of(x)[dim]
    index %= size
    name = b.of(x)
    bounds = [(0, index), (index + 1, size)]
    before, after = (b.add("Slice", name, *(b.constant([each]) for each in (*ends, dim, 1))) for ends in bounds)
    return b.add("Concat", before, b.add("Unsqueeze", b.of(source), b.constant([dim])), after, axis=dim)


# -- made from nothing --------------------------------------------------------------------------------------------


@rule(aten.full.default, aten.full_like.default, aten.scalar_tensor.default)
def full(b: Builder, node: fx.Node) -> Name:
    value = node.args[0] if node.target is aten.scalar_tensor.default else node.args[1]
    return b.add("Expand", b.constant(value, dtype_of(node)), b.constant(sizes_of(node), torch.int64))


@rule(aten.zeros.default, aten.ones.default, aten.zeros_like.default, aten.ones_like.default, aten.new_zeros.default)
def filled(b: Builder, node: fx.Node) -> Name:
    value = int("ones" in str(node.target))
    return b.add("Expand", b.constant(value, dtype_of(node)), b.constant(sizes_of(node), torch.int64))


@rule(aten.arange.start_step, aten.arange.default, aten.arange.start)
def arange(b: Builder, node: fx.Node) -> Name:
    return b.constant(torch.arange(*node.args, dtype=dtype_of(node)))


# -- matrices, convolutions, norms --------------------------------------------------------------------------------


@rule(aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default, aten.dot.default)
def matmul(b: Builder, node: fx.Node) -> Name:
    return b.add("MatMul", b.of(node.args[0]), b.of(node.args[1]))


@rule(aten.addmm.default)
def addmm(b: Builder, node: fx.Node) -> Name:
    bias, left, right = map(b.of, node.args[:3])
    beta, alpha = float(node.kwargs.get("beta", 1)), float(node.kwargs.get("alpha", 1))
    return b.add("Gemm", left, right, bias, alpha=alpha, beta=beta)


@rule(aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention(b: Builder, node: fx.Node) -> Sequence[Name]:
    """Its second result, the logarithm of the softmax's denominator, is what its backward starts from."""
    query, key, value = node.args[:3]
    mask, scale = node.kwargs.get("attn_mask"), node.kwargs.get("scale")
    dtype, rows, columns = dtype_of(query), sizes_of(query)[-2], sizes_of(key)[-2]
    factor = b.constant(1 / math.sqrt(sizes_of(query)[-1]) if scale is None else scale, dtype)
    turned = b.add("Transpose", b.of(key), perm=[0, 1, 3, 2])
    scores = b.add("MatMul", b.add("Mul", b.of(query), factor), turned)
    if argument(node, 4, "is_causal", False):
        hidden = torch.full((rows, columns), -math.inf, dtype=dtype).triu(1)
        scores = b.add("Add", scores, b.constant(hidden))
    if mask is not None:
        scores = b.add("Add", scores, b.of(mask, dtype))
    denominator = _reduce(b, "ReduceLogSumExp", scores, [3], False)
    return b.add("MatMul", b.add("Softmax", scores, axis=-1), b.of(value)), denominator


@rule(aten.convolution.default)
def convolution(b: Builder, node: fx.Node) -> Name:
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = node.args
    rank = len(sizes_of(x)) - 2
    common = {
        "strides": _spread(stride, rank),
        "pads": _spread(padding, rank) * 2,
        "dilations": _spread(dilation, rank),
        "group": groups,
    }
    if transposed:
        common["output_padding"] = _spread(output_padding, rank)
    names = [b.of(x), b.of(weight), *([b.of(bias)] if bias is not None else [])]
    return b.add("ConvTranspose" if transposed else "Conv", *names, **common)


def _spread(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


@rule(aten.convolution_backward.default)
def convolution_backward(b: Builder, node: fx.Node) -> Sequence[Name | None]:
    """Both gradients of an ordinary convolution are convolutions: of the output's gradient with the weight, and of the
    input with the output's gradient, batch and channels exchanged."""
    grad, x, _, _, stride, padding, dilation, _, _, _, mask = node.args
    rank = len(sizes_of(x)) - 2
    stride, padding, dilation = (_spread(each, rank) for each in (stride, padding, dilation))
    to_input = _grad_of_input(b, node, stride, padding, dilation) if mask[0] else None
    to_weight = _grad_of_weight(b, node, stride, padding, dilation) if mask[1] else None
    batch_and_space = [0, *range(2, rank + 2)]
    to_bias = _reduce(b, "ReduceSum", b.of(grad), batch_and_space, False) if mask[2] else None
    return to_input, to_weight, to_bias


def _grad_of_input(
    b: Builder, node: fx.Node, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Name:
    grad, x, weight, groups = node.args[0], node.args[1], node.args[2], node.args[9]
    kernel = sizes_of(weight)[2:]
    rows = zip(sizes_of(x)[2:], sizes_of(grad)[2:], stride, padding, dilation, kernel, strict=True)
    # What a strided convolution never reached at the far end has no gradient: it is padded back.
    missing = [n - ((m - 1) * s - 2 * p + d * (k - 1) + 1) for n, m, s, p, d, k in rows]
    return b.add(
        "ConvTranspose", b.of(grad), b.of(weight), strides=list(stride), pads=list(padding) * 2,
        dilations=list(dilation), group=groups, output_padding=missing,
    )  # fmt: skip


def _grad_of_weight(
    b: Builder, node: fx.Node, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Name:
    grad, x, weight, groups = node.args[0], node.args[1], node.args[2], node.args[9]
    kernel = sizes_of(weight)[2:]
    exchange = [1, 0, *range(2, 2 + len(kernel))]
    parts = []
    for group in range(groups):
        some_x = _channels(b, x, group, groups)
        some_grad = _channels(b, grad, group, groups)
        full = b.add(
            "Conv", b.add("Transpose", some_x, perm=exchange), b.add("Transpose", some_grad, perm=exchange),
            strides=list(dilation), pads=list(padding) * 2, dilations=list(stride),
        )  # fmt: skip
        parts.append(b.add("Transpose", full, perm=exchange))
    joined = parts[0] if groups == 1 else b.add("Concat", *parts, axis=0)
    axes = list(range(2, 2 + len(kernel)))
    return b.add("Slice", joined, b.constant([0] * len(axes)), b.constant(kernel), b.constant(axes))


def _channels(b: Builder, node: fx.Node, group: int, groups: int) -> Name:
    if groups == 1:
        return b.of(node)
    width = sizes_of(node)[1] // groups
    return b.add("Slice", b.of(node), *(b.constant([each]) for each in (group * width, (group + 1) * width, 1)))


@rule(aten.max_pool2d_with_indices.default)
def max_pool(b: Builder, node: fx.Node) -> Sequence[Name | None]:
    """ONNX counts indices over the whole tensor, torch within a plane."""
    x = node.args[0]
    kernel = _spread(node.args[1], 2)
    stride, padding = argument(node, 2, "stride") or kernel, argument(node, 3, "padding", [0, 0])
    dilation, ceil = argument(node, 4, "dilation", [1, 1]), argument(node, 5, "ceil_mode", False)
    values, indices = b.add_many(
        "MaxPool", 2, b.of(x), kernel_shape=kernel, strides=_spread(stride, 2), pads=_spread(padding, 2) * 2,
        dilations=_spread(dilation, 2), ceil_mode=int(ceil),
    )  # fmt: skip
    plane = math.prod(sizes_of(x)[2:])
    return values, b.add("Mod", indices, b.constant(plane))


@rule(aten.avg_pool2d.default)
def avg_pool(b: Builder, node: fx.Node) -> Name:
    kernel = _spread(node.args[1], 2)
    stride = argument(node, 2, "stride") or kernel
    return b.add(
        "AveragePool", b.of(node.args[0]), kernel_shape=kernel, strides=_spread(stride, 2),
        pads=_spread(argument(node, 3, "padding", [0, 0]), 2) * 2, ceil_mode=int(argument(node, 4, "ceil_mode", False)),
        count_include_pad=int(argument(node, 5, "count_include_pad", True)),
    )  # fmt: skip


@rule(aten.native_layer_norm.default)
def layer_norm(b: Builder, node: fx.Node) -> Sequence[Name]:
    x, shape, weight, bias, eps = node.args
    axes = list(range(-len(shape), 0))
    name = b.of(x)
    mean = _reduce(b, "ReduceMean", name, axes, True)
    centred = b.add("Sub", name, mean)
    variance = _reduce(b, "ReduceMean", b.add("Mul", centred, centred), axes, True)
    inverse = b.add("Reciprocal", b.add("Sqrt", b.add("Add", variance, b.constant(eps, dtype_of(x)))))
    if weight is None:
        return b.add("Mul", centred, inverse), mean, inverse
    shift = [b.of(bias)] if bias is not None else []
    return b.add("LayerNormalization", name, b.of(weight), *shift, axis=-len(shape), epsilon=eps), mean, inverse


@rule(aten._native_batch_norm_legit_no_training.default, aten.native_batch_norm.default)
def batch_norm(b: Builder, node: fx.Node) -> Sequence[Name]:
    """With the running statistics; ``takes`` leaves the one that collects them to torch."""
    x, weight, bias, mean, variance = node.args[:5]
    count, dtype = sizes_of(mean), dtype_of(x)
    scale = b.of(weight) if weight is not None else b.constant(torch.ones(count, dtype=dtype))
    shift = b.of(bias) if bias is not None else b.constant(torch.zeros(count, dtype=dtype))
    name = b.add("BatchNormalization", b.of(x), scale, shift, b.of(mean), b.of(variance), epsilon=node.args[-1])
    nothing = b.constant(torch.zeros(0, dtype=dtype))
    return name, nothing, nothing


@rule(aten._native_batch_norm_legit_functional.default)
def batch_norm_in_training(b: Builder, node: fx.Node) -> Sequence[Name]:
    """Statistics of the batch, the running ones moved towards them."""
    x, weight, bias, old_mean, old_variance, _, momentum, eps = node.args
    sizes, dtype = sizes_of(x), dtype_of(x)
    axes = [0, *range(2, len(sizes))]
    count = math.prod(sizes[axis] for axis in axes)
    name = b.of(x)
    centred = b.add("Sub", name, _reduce(b, "ReduceMean", name, axes, True))
    spread = _reduce(b, "ReduceMean", b.add("Mul", centred, centred), axes, True)
    inverse = b.add("Reciprocal", b.add("Sqrt", b.add("Add", spread, b.constant(eps, dtype))))
    result = b.add("Mul", centred, inverse)
    per_channel = b.constant([sizes[1], *[1] * (len(sizes) - 2)])
    for operator, parameter in (("Mul", weight), ("Add", bias)):
        if parameter is not None:
            result = b.add(operator, result, b.add("Reshape", b.of(parameter), per_channel))
    flat = b.constant([sizes[1]])
    mean = b.add("Reshape", _reduce(b, "ReduceMean", name, axes, True), flat)
    variance = b.add("Mul", b.add("Reshape", spread, flat), b.constant(count / max(count - 1, 1), dtype))
    saved = b.add("Reshape", inverse, flat)
    return result, mean, saved, _moved(b, old_mean, mean, momentum), _moved(b, old_variance, variance, momentum)


def _moved(b: Builder, old: fx.Node, new: Name, momentum: float) -> Name:
    dtype = dtype_of(old)
    kept = b.add("Mul", b.of(old), b.constant(1 - momentum, dtype))
    return b.add("Add", kept, b.add("Mul", new, b.constant(momentum, dtype)))


@rule(aten.native_batch_norm_backward.default)
def batch_norm_backward(b: Builder, node: fx.Node) -> Sequence[Name | None]:
    grad, x, weight, _, _, mean, inverse = node.args[:7]
    sizes, dtype = sizes_of(x), dtype_of(x)
    axes = [0, *range(2, len(sizes))]
    per_channel = b.constant([sizes[1], *[1] * (len(sizes) - 2)])
    scale = b.add("Reshape", b.of(inverse), per_channel)
    normal = b.add("Mul", b.add("Sub", b.of(x), b.add("Reshape", b.of(mean), per_channel)), scale)
    total = _reduce(b, "ReduceSum", b.of(grad), axes, True)
    along = _reduce(b, "ReduceSum", b.add("Mul", b.of(grad), normal), axes, True)
    count = b.constant(math.prod(sizes[axis] for axis in axes), dtype)
    shared = b.add("Div", b.add("Add", total, b.add("Mul", normal, along)), count)
    to_input = b.add("Mul", b.add("Sub", b.of(grad), shared), scale)
    if weight is not None:
        to_input = b.add("Mul", to_input, b.add("Reshape", b.of(weight), per_channel))
    flat = b.constant([sizes[1]])
    return to_input, b.add("Reshape", along, flat), b.add("Reshape", total, flat)


@rule(aten.threshold_backward.default)
def threshold_backward(b: Builder, node: fx.Node) -> Name:
    grad, x, threshold = node.args
    dtype = dtype_of(node)
    above = b.add("Greater", b.of(x), b.constant(threshold, dtype_of(x)))
    return b.add("Where", above, b.of(grad, dtype), b.constant(0, dtype))
