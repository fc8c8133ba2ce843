"""The order of checks and writes: everything that may raise for the contents of its operands comes before anything that
writes inputs.

A caller whose graph raised then finds its inputs as they were, and may run the program in another way.  An operator
that writes its arguments and raises is trusted to raise first.  Positions on GPUs are asserted, which nobody survives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from inductor.deps import Access, nodes
from inductor.ir.expr import CHECKS, Apply, Const, IndexValue, Load, walk
from inductor.ir.graph import Graph, Operation
from inductor.ir.program import Buffer, Call, Ref
from inductor.torch_versions import pytree, schema_of

Check: TypeAlias = tuple[object, ...]
_SAFE = frozenset((
    # products and convolutions
    "mm", "bmm", "addmm", "baddbmm", "convolution", "convolution_backward",
    # norms and dropout
    "native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training", "_weight_norm_interface",
    "_weight_norm_interface_backward", "native_dropout", "native_dropout_backward",
    # windows
    "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "max_pool3d_with_indices",
    "max_pool3d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward", "avg_pool3d", "avg_pool3d_backward",
    "adaptive_max_pool2d", "adaptive_max_pool2d_backward", "adaptive_max_pool3d", "adaptive_max_pool3d_backward",
    # order, running results, what is where
    "sort", "topk", "cumsum", "cumprod", "cummax", "cummin", "nonzero", "nonzero_static", "unique_consecutive",
    "unique_dim", "_unique", "_unique2",
    # memory that is made, filled, copied or seen otherwise
    "empty", "empty_like", "empty_permuted", "empty_strided", "zeros", "zeros_like", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm", "fill", "zero", "copy", "clone", "view", "view_copy",
    "view_as_real", "view_as_complex", "as_strided", "as_strided_copy", "as_strided_scatter", "sym_size", "sym_numel",
    "sym_stride", "sym_storage_offset",
))  # fmt: skip
"""Torch's operators that compute for any contents, in place too; all others are assumed to raise."""

_SAFE_FAMILIES = (
    "_scaled_dot_product_", "_flash_attention_", "_efficient_attention_",  # scores and masks are numbers like others
    "cudnn_", "miopen_", "mkldnn_",  # libraries that look at no contents
    "upsample_", "_foreach_", "bitwise_", "_fft_",  # one number for each, by arithmetic alone
)  # fmt: skip
"""The beginnings of the names of more."""


@dataclass(frozen=True, slots=True)
class Order:
    """Operations by number: those that may raise, and those that write inputs and wait for all of them."""

    raisers: frozenset[int]
    writers: frozenset[int]

    def kept_apart(self, some: Sequence[int], others: Sequence[int]) -> bool:
        """True if the two groups of operations may not share a kernel."""
        return self._mixes(some, others) or self._mixes(others, some)

    def _mixes(self, some: Sequence[int], others: Sequence[int]) -> bool:
        return not self.raisers.isdisjoint(some) and not self.writers.isdisjoint(others)


def order_of(graph: Graph, accesses: Sequence[Access]) -> Order:
    """The operations that may raise and the writers that wait for them; none where nothing is written or nothing may
    raise."""
    inputs = {given.name for given in graph.inputs if isinstance(given, Buffer)}
    writers = frozenset(number for number, touched in enumerate(accesses) if touched.writes & inputs)
    # A nest that repeats a check of an earlier one raises only if that one has raised already.
    met: set[Check] = set()
    raisers: set[int] = set()
    for number, operation in enumerate(graph.operations if writers else ()):
        checks = set(_checks_of(graph, operation))
        if checks - met:  # what was asked before raises no more
            raisers.add(number)
            met |= checks
    return Order(frozenset(raisers), writers if raisers else frozenset())


def _checks_of(graph: Graph, operation: Operation) -> Iterator[Check]:
    if isinstance(operation, Call):
        if _may_raise(operation) or len(set(_kinds_of(graph, operation))) > 1:
            yield (id(operation),)
    elif operation.device.type == "cpu":
        checks = (node for node in nodes(operation.loops) if isinstance(node, Apply) and node.op in CHECKS)
        yield from map(_named, checks)


def _named(check: Apply) -> Check:
    """A key that is equal for checks of the same numbers, whatever the axes are called along which they are read."""
    name: list[object] = [check.op]
    reads = 0
    for node in walk(check):
        if isinstance(node, Load) and not node.bindings:
            reads += 1
            axes = [symbol for symbol in node.index.symbols if symbol.size is not None]
            steps = sorted((str(node.index.stride_of(axis)), str(axis.size)) for axis in axes)
            name.append((node.buffer, tuple(steps), str(node.index.subs(dict.fromkeys(axes, 0)))))
        elif isinstance(node, Apply):
            name.append((node.op, node.dtype))
        elif isinstance(node, Const) or (isinstance(node, IndexValue) and not node.index.symbols):
            name.append(node)
        else:
            return (id(check),)
    # Axes of different reads would have to be matched with one another: a check with several is only itself.
    return tuple(name) if reads == 1 else (id(check),)


def _kinds_of(graph: Graph, call: Call) -> Iterator[torch.dtype]:
    """The floating and complex dtypes of its operands.  Torch's kernels take more than one beside one another only here
    and there, and the tracer may not have asked them."""
    for leaf in pytree.tree_leaves((call.args, call.kwargs)):
        if isinstance(leaf, Ref):
            buffer = graph.views[leaf.name].buffer if leaf.name in graph.views else graph.buffers[leaf.name]
            if buffer.dtype.is_floating_point or buffer.dtype.is_complex:
                yield buffer.dtype


def _may_raise(call: Call) -> bool:
    """True if torch's operator may raise for what its operands hold."""
    target = call.target
    if call.unimplemented:
        return True
    if target.namespace not in ("aten", "prims"):
        return not schema_of(target).is_mutable
    return not is_safe(schema_of(target).name.rpartition("::")[2])


def is_safe(name: str) -> bool:
    """True if torch's operator of this name computes for any contents, in place or not."""
    return name.removesuffix("_") in _SAFE or name.startswith(_SAFE_FAMILIES)
