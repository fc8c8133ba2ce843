"""Elements in other places, and tensors made from nothing.  Sizes are known, so they are constants of the model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from compile_api.runtimes.onnx.model import Builder, Name, rule
from compile_api.runtimes.onnx.nodes import argument, dtype_of, sizes_of, value_of
from compile_api.torch_versions import aten


@rule(
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default, aten.squeeze.dim,
    aten.squeeze.dims, aten.squeeze.default, aten.flatten.using_ints,
)  # fmt: skip
def reshape(b: Builder, node: fx.Node) -> Name:
    # ``allowzero``: otherwise ONNX takes a size of 0 for the input's size there.
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
    # torch passes over empty tensors of one dimension, whatever the others are.
    parts = [each for each in node.args[0] if sizes_of(each) != [0]]
    return b.add("Concat", *(b.of(each, dtype_of(node)) for each in parts), axis=argument(node, 1, "dim", 0))


@rule(aten.split_with_sizes.default, aten.split.Tensor)
def split(b: Builder, node: fx.Node) -> Sequence[Name]:
    dim = argument(node, 2, "dim", 0)
    # Sizes that the tracer saw: one form for both operators, and a last part that is shorter.
    lengths = [int(part.shape[dim]) for part in value_of(node)]
    return b.add_many("Split", len(lengths), b.of(node.args[0]), b.constant(lengths), axis=dim)


@rule(aten.constant_pad_nd.default)
def pad(b: Builder, node: fx.Node) -> Name:
    rank, given = len(sizes_of(node)), list(node.args[1])
    # torch counts pairs from the last dimension, ONNX has all begins and then all ends.
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
    """Joins three parts: the slices before the index, the new slice, the slices behind."""
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
