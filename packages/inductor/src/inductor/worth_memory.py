"""Values that get memory, and those that are rounded as memory would hold them: what several uses, or one in several
passes, had better see once.

Must not know: how values are lowered, or which kernels they end up in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch
from torch.fx import Node

from inductor import costs
from inductor.ir.expr import Load, loads
from inductor.ir.index import ONE
from inductor.lowerings.values import Tensor, cost, cost_again
from inductor.rewrites.views import is_view
from inductor.torch_versions import aten

CONVERSIONS = frozenset((aten._to_copy.default, torch.ops.prims.convert_element_type.default))
_PASSES = {
    aten._softmax.default: 3,
    aten._log_softmax.default: 3,
    aten.logsumexp.default: 2,
    aten.native_layer_norm.default: 2,
    aten.var.correction: 2,
    aten.var_mean.correction: 2,
    aten.std.correction: 2,
}
"""Operators that read an operand more than once, and how often."""
_BESIDE_STATISTICS = frozenset((
    *_PASSES, aten.native_layer_norm_backward.default, aten.native_group_norm.default,
    aten.native_group_norm_backward.default, aten.native_batch_norm.default, aten.native_batch_norm_backward.default,
    aten._native_batch_norm_legit.default, aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default, aten._softmax_backward_data.default,
    aten._log_softmax_backward_data.default, *CONVERSIONS,
))  # fmt: skip
"""Operators that read an operand and something that was made of it; behind a conversion both may come."""


def is_rounded(node: Node, users: int) -> bool:
    """True if half precision has to be rounded here though it is wider in a register: where several users see the
    value, or one of them beside something that was made of it, all see one number."""
    return users > 1 or any(user.target in _BESIDE_STATISTICS for _, user in _readers(node))


def deserves_memory(node: Node, value: Tensor, users: int) -> bool:
    """True if storing the value of a node once is better than computing it in each of its users."""
    work, reads = cost(value.expr, costs.ANY.largest_tree), list(loads(value.expr))
    if work > costs.ANY.largest_tree or len(reads) > costs.ANY.most_reads:
        return True
    if (
        # Memory traffic decides on a GPU: cheap values are recomputed if that reads no more bytes than loading them
        # would.
        value.device.type == "cuda"
        and work <= costs.GPU.cheap
        and 0 < _bytes_read(value, reads) <= value.dtype.itemsize
    ):
        return False
    if work <= costs.ANY.shared:
        return False
    return users > 1 or _is_repeated_outside(node, work) or _is_read_in_passes(node, value)


def _is_read_in_passes(node: Node, value: Tensor) -> bool:
    """True if a user on a CPU goes over its operand several times, as softmax does, and would compute much each time.
    A GPU has its rows in registers."""
    if value.device.type != "cpu":
        return False
    passes = max((_PASSES.get(user.target, 1) for _, user in _readers(node)), default=1)
    return passes > 1 and passes * cost_again(value.expr, value.device) > costs.CPU.worth_a_pass


def _bytes_read(value: Tensor, reads: Iterable[Load]) -> int:
    """The bytes read to make one element, without reads that repeat along some axis; 0 where that is not known."""
    whole = sum(size != ONE for size in value.sizes)
    if any(load.bindings for load in reads):
        return 0  # nobody knows how many
    places = {(load.buffer, load.index, load.dtype.itemsize) for load in reads if len(load.index.symbols) == whole}
    return sum(width for _, _, width in places)


def _is_repeated_outside(node: Node, work: int) -> bool:
    """True if users repeat the value over outer axes, as a table of biases over a batch: it would be computed for each.
    What is repeated along the innermost axis is computed once, ahead of its loop."""
    made = node.meta["val"]
    for read, user in _readers(node):
        operand, result = read.meta.get("val"), user.meta.get("val")
        if not isinstance(operand, torch.Tensor) or not isinstance(result, torch.Tensor):
            continue
        elements = _elements(made)
        again = _elements(result) // max(elements, 1) - 1
        if again * work < costs.ANY.often or again * elements * work < costs.ANY.small_work:
            continue
        if _fits(operand, result) and not _repeats_innermost(operand, result):
            return True
    return False


def _readers(node: Node) -> Iterator[tuple[Node, Node]]:
    """The users of a node and of its views that are none themselves, each with what it reads."""
    for user in node.users:
        if is_view(user):
            yield from _readers(user)
        else:
            yield node, user


def _elements(value: torch.Tensor) -> int:
    return math.prod(size if isinstance(size, int) else costs.ANY.likely_size for size in value.shape)


def _fits(operand: torch.Tensor, result: torch.Tensor) -> bool:
    """True if the operand is repeated to the result's shape, or has it."""
    pairs = zip(reversed(operand.shape), reversed(result.shape), strict=False)
    return operand.ndim <= result.ndim and all(_is_one(size) or _same(size, whole) for size, whole in pairs)


def _repeats_innermost(operand: torch.Tensor, result: torch.Tensor) -> bool:
    """True if all elements along the result's innermost axis take one element of the operand."""
    steps = {dim: step for dim, step in enumerate(result.stride()) if not _is_one(result.shape[dim])}
    if not steps or not all(isinstance(step, int) for step in steps.values()):
        return False
    at = min(steps, key=steps.__getitem__) - result.ndim  # from behind
    return -at > operand.ndim or _is_one(operand.shape[at]) or operand.stride(at) == 0


def _is_one(size: object) -> bool:
    return isinstance(size, int) and size == 1


def _same(size: int | torch.SymInt, whole: int | torch.SymInt) -> bool:
    """True for equal numbers, and for one symbol; no question that a guard would have to answer."""
    if isinstance(size, int) or isinstance(whole, int):
        return isinstance(size, int) and isinstance(whole, int) and size == whole
    return bool(size.node.expr == whole.node.expr)
