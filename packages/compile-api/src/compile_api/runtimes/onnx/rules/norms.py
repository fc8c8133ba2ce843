"""Layer and batch norms, with the statistics that their backward starts from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import fx

from compile_api.runtimes.onnx.model import Builder, Name, rule
from compile_api.runtimes.onnx.nodes import dtype_of, sizes_of
from compile_api.torch_versions import aten


@rule(aten.native_layer_norm.default)
def layer_norm(b: Builder, node: fx.Node) -> Sequence[Name]:
    x, shape, weight, bias, eps = node.args
    axes = list(range(-len(shape), 0))
    name = b.of(x)
    # Backward starts from mean and inverse: they are results of their own.
    mean = b.reduce("ReduceMean", name, axes, True)
    centred = b.add("Sub", name, mean)
    variance = b.reduce("ReduceMean", b.add("Mul", centred, centred), axes, True)
    inverse = b.add("Reciprocal", b.add("Sqrt", b.add("Add", variance, b.constant(eps, dtype_of(x)))))
    # ONNX's operator insists on a scale.
    if weight is None:
        return b.add("Mul", centred, inverse), mean, inverse
    shift = [b.of(bias)] if bias is not None else []
    return b.add("LayerNormalization", name, b.of(weight), *shift, axis=-len(shape), epsilon=eps), mean, inverse


@rule(aten._native_batch_norm_legit_no_training.default, aten.native_batch_norm.default)
def batch_norm(b: Builder, node: fx.Node) -> Sequence[Name]:
    """A batch norm with the running statistics; ``takes`` leaves the one that collects them to torch."""
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
    centred = b.add("Sub", name, b.reduce("ReduceMean", name, axes, True))
    spread = b.reduce("ReduceMean", b.add("Mul", centred, centred), axes, True)
    inverse = b.add("Reciprocal", b.add("Sqrt", b.add("Add", spread, b.constant(eps, dtype))))
    result = b.add("Mul", centred, inverse)
    per_channel = b.constant([sizes[1], *[1] * (len(sizes) - 2)])
    for operator, parameter in (("Mul", weight), ("Add", bias)):
        if parameter is not None:
            result = b.add(operator, result, b.add("Reshape", b.of(parameter), per_channel))
    flat = b.constant([sizes[1]])
    mean = b.add("Reshape", b.reduce("ReduceMean", name, axes, True), flat)
    # The running variance is unbiased, the one that normalizes is not.
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
    # The gradients of shift and scale.  Mean and variance depend on every element, which takes a share of both off the
    # input's gradient.
    total = b.reduce("ReduceSum", b.of(grad), axes, True)
    along = b.reduce("ReduceSum", b.add("Mul", b.of(grad), normal), axes, True)
    count = b.constant(math.prod(sizes[axis] for axis in axes), dtype)
    shared = b.add("Div", b.add("Add", total, b.add("Mul", normal, along)), count)
    to_input = b.add("Mul", b.add("Sub", b.of(grad), shared), scale)
    if weight is not None:
        to_input = b.add("Mul", to_input, b.add("Reshape", b.of(weight), per_channel))
    flat = b.constant([sizes[1]])
    return to_input, b.add("Reshape", along, flat), b.add("Reshape", total, flat)
