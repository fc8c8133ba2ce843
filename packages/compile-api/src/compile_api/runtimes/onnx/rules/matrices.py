"""Products of matrices, and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import fx

from compile_api.runtimes.onnx.model import Builder, Name, rule
from compile_api.runtimes.onnx.nodes import argument, dtype_of, sizes_of
from compile_api.torch_versions import aten


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
    """Attention, with the logarithm of the softmax's denominator as second result, from which its backward starts."""
    query, key, value = node.args[:3]
    mask, scale = node.kwargs.get("attn_mask"), node.kwargs.get("scale")
    dtype, rows, columns = dtype_of(query), sizes_of(query)[-2], sizes_of(key)[-2]
    factor = b.constant(1 / math.sqrt(sizes_of(query)[-1]) if scale is None else scale, dtype)
    transposed = b.add("Transpose", b.of(key), perm=[0, 1, 3, 2])
    scores = b.add("MatMul", b.add("Mul", b.of(query), factor), transposed)
    # Sizes are known, so the triangle is a constant of the model.
    if argument(node, 4, "is_causal", False):
        hidden = torch.full((rows, columns), -math.inf, dtype=dtype).triu(1)
        scores = b.add("Add", scores, b.constant(hidden))
    if mask is not None:
        scores = b.add("Add", scores, b.of(mask, dtype))
    denominator = b.reduce("ReduceLogSumExp", scores, [3], False)
    return b.add("MatMul", b.add("Softmax", scores, axis=-1), b.of(value)), denominator
