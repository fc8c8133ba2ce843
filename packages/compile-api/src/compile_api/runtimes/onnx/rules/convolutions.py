"""Convolutions with their gradients, and pools."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import fx

from compile_api.runtimes.onnx.model import Builder, Name, rule
from compile_api.runtimes.onnx.nodes import argument, sizes_of
from compile_api.torch_versions import aten


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
    """The gradients of an ordinary convolution, which are convolutions: of the output's gradient with the weight, and
    of the input with the output's gradient, batch and channels exchanged."""
    grad, x, _, _, stride, padding, dilation, _, _, _, mask = node.args
    rank = len(sizes_of(x)) - 2
    stride, padding, dilation = (_spread(each, rank) for each in (stride, padding, dilation))
    to_input = _grad_of_input(b, node, stride, padding, dilation) if mask[0] else None
    to_weight = _grad_of_weight(b, node, stride, padding, dilation) if mask[1] else None
    batch_and_space = [0, *range(2, rank + 2)]
    to_bias = b.reduce("ReduceSum", b.of(grad), batch_and_space, False) if mask[2] else None
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
    # Batch and channels change places: then the sum over the batch is the convolution's sum over channels.  Stride and
    # dilation change places, too.
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
    # Where the stride left a rest of the input, the convolution finds places beyond the kernel.
    axes = list(range(2, 2 + len(kernel)))
    return b.add("Slice", joined, b.constant([0] * len(axes)), b.constant(kernel), b.constant(axes))


def _channels(b: Builder, node: fx.Node, group: int, groups: int) -> Name:
    if groups == 1:
        return b.of(node)
    width = sizes_of(node)[1] // groups
    return b.add("Slice", b.of(node), *(b.constant([each]) for each in (group * width, (group + 1) * width, 1)))


@rule(aten.max_pool2d_with_indices.default)
def max_pool(b: Builder, node: fx.Node) -> Sequence[Name | None]:
    """A pool with indices, which ONNX counts over the whole tensor and torch within a plane."""
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
