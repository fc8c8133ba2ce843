"""Attention that was written out, as a call of the library's fused kernel, which never holds all scores in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from inductor.ir.index import ONE, Index
from inductor.ir.program import Buffer
from inductor.lowerings.algebra import Value, equal, where
from inductor.lowerings.context import Context
from inductor.lowerings.reductions import amax
from inductor.lowerings.registry import Declined
from inductor.lowerings.values import Tensor, broadcast_sizes, broadcast_to, compute_dtype, load, number, pure
from inductor.lowerings.views import permuted, reshape
from inductor.rewrites.attention import ABSORBING, Added, Attention, Filled, laid
from inductor.torch_versions import aten


def attend(ctx: Context, attention: Attention) -> Tensor:
    """The result of an attention's last product, (batch and heads, rows, columns)."""
    leading = ctx.sizes.indices(attention.shape[:-2])
    heads = leading if len(leading) == 2 else (*leading, ONE)
    queries, transposed, values = (
        _by_head(_current(ctx, node), heads) for node in (attention.queries, attention.keys, attention.values)
    )
    mask = _mask(ctx, attention, leading, queries.dtype)
    result = _result(ctx, (*queries.sizes[:3], values.sizes[3]), queries)
    # A product takes keys turned, the library as they are.
    operands = [queries, permuted(transposed, [0, 1, 3, 2]), values]
    refs = [None if operand is None else ctx.ref(operand) for operand in (*operands, mask)]
    ctx.call(aten.scaled_dot_product_attention.default, (*refs, 0.0, False), {"scale": attention.scale}, [result], None)
    output = load(result)
    if mask is not None:
        output = _without_empty_rows(ctx, output, mask)
    return reshape(output, (output.sizes[0] * output.sizes[1], *output.sizes[2:]))


def _current(ctx: Context, node: Node) -> Tensor:
    """An operand as it was before it was copied for the product; the copy, where the original has been written to
    since."""
    source: Tensor = ctx.current(ctx.values[laid(node)])
    return ctx.current(ctx.values[node]) if source.base in ctx.mutated else source


def _by_head(operand: Tensor, heads: Sequence[Index]) -> Tensor:
    """The operand with batch and heads as two dimensions."""
    rows, columns = operand.sizes[-2:]
    return reshape(operand, (*heads, rows, columns))


def _result(ctx: Context, sizes: tuple[Index, ...], like: Tensor) -> Buffer:
    """The buffer of the result, in the layout of the library's kernels: heads beside one another, row by row."""
    _, heads, rows, columns = sizes
    strides = (rows * heads * columns, columns, heads * columns, ONE)
    name = ctx.buffer(sizes, like.dtype, like.device, strides).name
    ctx.buffers[name] = Buffer(name, like.dtype, like.device, sizes, strides)
    return ctx.buffers[name]


def _mask(ctx: Context, attention: Attention, heads: Sequence[Index], dtype: torch.dtype) -> Tensor | None:
    """All masks as one tensor that is added to the scores, no larger than needed."""
    mask: Tensor | None = None
    for part in attention.masks:
        if isinstance(part, Added):
            bias = _with_heads(ctx.current(ctx.values[part.bias]), heads, joined=part.joined)
            mask = bias if mask is None else _both(mask, bias, lambda a, b: a + b)
        else:
            mask = _filled(mask, _with_heads(ctx.current(ctx.values[part.condition]), heads), part, dtype)
    return None if mask is None else ctx.realize(mask)


def _with_heads(mask: Tensor, heads: Sequence[Index], *, joined: bool = False) -> Tensor:
    """A mask with four dimensions: batch, heads, rows and columns; ``heads`` has the first two, or one if the scores
    have no heads."""
    if joined and len(heads) == 2 and mask.ndim == 3 and mask.sizes[0] != ONE:
        return reshape(mask, (*heads, *mask.sizes[1:]))
    if len(heads) == 1 and mask.ndim == 3:
        return reshape(mask, (mask.sizes[0], ONE, *mask.sizes[1:]))
    return reshape(mask, (*[ONE] * (4 - mask.ndim), *mask.sizes))


def _both(left: Tensor, right: Tensor, combine: Any) -> Tensor:
    sizes = broadcast_sizes([left.sizes, right.sizes])
    left, right = broadcast_to(left, sizes), broadcast_to(right, sizes)
    return pure(left, combine(Value(left.expr), Value(right.expr)).expr)


def _filled(mask: Tensor | None, condition: Tensor, part: Filled, dtype: torch.dtype) -> Tensor:
    """A filling mask as an added one, on top of ``mask``.  A fill that does not absorb any score becomes the dtype's
    smallest number, which does, so that a row of nothing else is weighed evenly, as in eager."""
    smallest = torch.finfo(dtype).min
    absorbs = part.value <= ABSORBING
    fill = (part.value if part.value == -math.inf else max(part.value, smallest)) if absorbs else smallest
    holds = Value(condition.expr) if part.holds else ~Value(condition.expr)
    if mask is None:
        zero = Value(number(0.0, compute_dtype(dtype)))
        return pure(condition, where(holds, fill, zero).expr, dtype)
    sizes = broadcast_sizes([mask.sizes, condition.sizes])
    mask, condition = broadcast_to(mask, sizes), broadcast_to(condition, sizes)
    holds = Value(condition.expr) if part.holds else ~Value(condition.expr)
    return pure(mask, where(holds, fill, Value(mask.expr)).expr)


def _without_empty_rows(ctx: Context, output: Tensor, mask: Tensor) -> Tensor:
    """The result with NaN in rows that are masked out whole, as softmax gives; the library's kernel makes them zero."""
    largest = amax(ctx, mask, [-1], True)
    assert not isinstance(largest, Declined)
    largest = broadcast_to(largest, output.sizes)
    return pure(output, where(equal(Value(largest.expr), -math.inf), math.nan, Value(output.expr)).expr)
