"""The test whether a node can be written in ONNX: it has a rule, and types and sizes that ONNX can say."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from compile_api.runtimes.onnx.model import DTYPES, RULES
from compile_api.runtimes.onnx.nodes import argument, value_of


def takes(node: fx.Node) -> bool:
    """True if there is a rule for the node, and ONNX can say its types and sizes."""
    if getattr(node.target, "__name__", "") == "getitem":
        source = node.args[0]
        return isinstance(source, fx.Node) and takes(source)
    if node.target not in RULES or _collects_statistics(node) or _turns_a_transposed_convolution(node):
        return False
    involved = [value_of(each) for each in (node, *node.all_input_nodes)]
    return all(_sayable(value) for value in involved)


def _collects_statistics(node: fx.Node) -> bool:
    """A batch norm in training, or its backward outside of it: other formulas than those of the table."""
    name = getattr(node.target, "__name__", "")
    if name in ("native_batch_norm.default", "native_batch_norm_backward.default"):
        return bool(argument(node, 5 if "backward" not in name else 7, "training")) == ("backward" not in name)
    return name == "_native_batch_norm_legit_functional.default" and not argument(node, 5, "training")


def _turns_a_transposed_convolution(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "convolution_backward.default" and bool(node.args[7])


def _sayable(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(each is None or _sayable(each) for each in value)
    if not isinstance(value, torch.Tensor):
        return False
    return value.dtype in DTYPES and all(type(size) is int for size in value.shape)


def written_with_others() -> list[Any]:
    """Operators that torch can write with simpler ones, for which there are rules."""
    aten = torch.ops.aten
    return [
        aten._softmax_backward_data, aten._log_softmax_backward_data, aten.native_layer_norm_backward,
        aten.gelu_backward, aten.sigmoid_backward, aten.tanh_backward, aten.silu, aten.silu_backward,
        aten.select_backward, aten.slice_backward, aten.embedding_dense_backward, aten.nll_loss_forward,
        aten.nll_loss_backward, aten.native_group_norm,
        aten.native_group_norm_backward, aten.hardswish, aten.hardswish_backward, aten.hardsigmoid,
        aten.leaky_relu_backward, aten.mse_loss, aten.mse_loss_backward, aten.addcmul, aten.addcdiv, aten.rsub,
        aten.var_mean, aten.std, aten.std_mean, aten.softplus, aten.elu, aten.mish, aten.masked_fill,
        aten.native_dropout_backward, aten.stack, aten.smooth_l1_loss, aten.log_sigmoid_forward, aten.l1_loss,
        aten._adaptive_avg_pool2d, aten.floor_divide, aten.linear, aten.dropout, aten.roll,
    ]  # fmt: skip
