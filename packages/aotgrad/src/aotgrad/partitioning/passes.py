"""Tidying the joint graph: each pass takes one and returns one, and keeps the caller's results as they are.

Must not know: partitioning, compilers.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.autograd_graph.missing_gradients import ANSWERS
from aotgrad.partitioning.partition import has_effect, must_run, runs_in_backward
from aotgrad.random_operators import draws
from aotgrad.recording.histories import DETACHED, HISTORY
from aotgrad.recording.whole_operators import WHOLE, renamed, sources_of
from aotgrad.tensors.functional import memory_of
from aotgrad.tensors.symbols import symbols_of
from aotgrad.torch_versions import aten, pytree
from aotgrad.tracing.joint import JointGraph

JointPass = Callable[[JointGraph], JointGraph]


_FILLED: dict[Any, Callable[..., Any]] = {
    aten.ones_like.default: lambda like, **options: 1,
    aten.zeros_like.default: lambda like, **options: 0,
    aten.full_like.default: lambda like, value, **options: value,
    aten.new_ones.default: lambda like, size, **options: 1,
    aten.new_zeros.default: lambda like, size, **options: 0,
    aten.new_full.default: lambda like, size, value, **options: value,
}
"""Operators that make a tensor like another one, and the number that it is filled with."""


def replace_ones_like(joint: JointGraph) -> JointGraph:
    """Replaces tensors of ones like a loss, from which a program's own gradients start, by ones of its size: then
    neither its work nor what that reads is needed.

    Not in backward, where such nodes tell on which tangents something depends, and not for results, whose version
    counts differ between operators.
    """
    returned = _memories_returned(joint)
    for node in joint.graph.nodes:
        value = node.meta.get("val")
        if node.target not in _FILLED or runs_in_backward(node) or not returned.isdisjoint(_memories(node)):
            continue
        if _lies_plainly(value):
            options = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
            filled = _FILLED[node.target](*node.args, **node.kwargs)
            node.target, node.args, node.kwargs = aten.full.default, (list(value.shape), filled), options
    return joint


def _lies_plainly(value: Any) -> bool:
    fixed = isinstance(value, torch.Tensor) and all(isinstance(size, int) for size in value.shape)
    return fixed and value.is_contiguous()


def drop_dead_code(joint: JointGraph) -> JointGraph:
    """Removes nodes that nobody reads, except random draws and checks, which count by themselves, values whose history
    another one has, and operands of operators that were taken apart."""
    graph, kept = joint.graph, set[fx.Node]()
    for node in reversed(list(graph.nodes)):
        if node.users or node in kept or node.op not in ("call_function", "get_attr") or must_run(node):
            kept.update(_history(node), sources_of(node))
        else:
            graph.erase_node(node)
    return joint


def _history(node: fx.Node) -> list[fx.Node]:
    return [node.meta[HISTORY]] if HISTORY in node.meta else []


def forget_unread_statistics(joint: JointGraph) -> JointGraph:
    """Drops the running statistics from batch norm's backward in training, which ignores them: they need not be
    saved."""
    for node in joint.graph.find_nodes(op="call_function", target=aten.native_batch_norm_backward.default):
        grad, value, weight, _, _, *rest = node.args
        if rest[2]:
            node.args = (grad, value, weight, None, None, *rest)
    return joint


def share_equal_work(joint: JointGraph) -> JointGraph:
    """Makes one node of two that compute the same.

    Within a phase only: what backward repeats on purpose (a checkpoint) stays repeated.  Memory that is returned, by
    itself or as a view, keeps its node, for the caller must not find two values sharing it.
    """
    first: dict[Any, fx.Node] = {}
    gone: dict[fx.Node, fx.Node] = {}
    returned = _memories_returned(joint)
    sharing: dict[Any, list[fx.Node]] = defaultdict(list)
    for node in joint.graph.nodes:
        for memory in _memories(node):
            sharing[memory].append(node)
    for node in list(joint.graph.nodes):
        # A history that was merged away goes on as the node that stands for it.
        node.meta.update((HISTORY, gone.get(before, before)) for before in _history(node))
        if WHOLE in node.meta:
            node.meta[WHOLE] = renamed(node.meta[WHOLE], gone)
        if not _is_repeatable(node) or not returned.isdisjoint(_memories(node)):
            continue
        whole = _frozen(node.meta.get(WHOLE))
        noted = node.meta.get(ANSWERS), DETACHED in node.meta, node.meta.get(HISTORY), whole
        key = (node.target, runs_in_backward(node), noted, _frozen(node.args), _frozen(node.kwargs))
        known = first.setdefault(key, node)
        if known is not node and _take_over_views(known, node, sharing):
            node.replace_all_uses_with(known)
            joint.graph.erase_node(node)
            gone[node] = known
    return joint


def _take_over_views(known: fx.Node, node: fx.Node, sharing: dict[object, list[fx.Node]]) -> bool:
    """True once views of `node` are views of the equal `known`, whose memory they have then; False where they cannot
    be."""
    value, (memory, *more) = known.meta.get("val"), _memories(node)
    if more or not isinstance(value, torch.Tensor) or _memories(known) == {memory}:
        return True
    views = [view for view in sharing[memory] if view is not node and isinstance(view.meta["val"], torch.Tensor)]
    if any(view.meta["val"].dtype != value.dtype for view in views):
        return False
    for view in views:
        held = view.meta["val"]
        view.meta["val"] = value.detach().as_strided(held.size(), held.stride(), held.storage_offset())
        sharing[next(iter(_memories(known)))].append(view)
    return True


def read_constants_in_place(joint: JointGraph) -> JointGraph:
    """Reads a constant of the program without the copy that each call makes of it in eager, unless the caller gets that
    memory."""
    returned = _memories_returned(joint)
    for node in joint.graph.find_nodes(op="call_function", target=aten.lift_fresh_copy.default):
        if returned.isdisjoint(_memories(node)):
            node.target = aten.lift_fresh.default
    return joint


def _memories_returned(joint: JointGraph) -> set[Any]:
    return {memory for node in joint.values for memory in _memories(node)}


def _memories(value: object) -> set[Any]:
    """The memories of a node's results, as keys; a node without memory has only itself."""
    held = value.meta.get("val") if isinstance(value, fx.Node) else None
    tensors = [each for each in pytree.tree_leaves(held) if isinstance(each, torch.Tensor)]
    return {memory_of(each) for each in tensors if each.layout is torch.strided} or {value}


def _is_repeatable(node: fx.Node) -> bool:
    """True for a node that computes the same from the same arguments, for all we know."""
    if node.op != "call_function" or draws(node.target) or has_effect(node) or _brings_sizes(node):
        return False
    return node.target is operator.getitem or getattr(node.target, "namespace", None) == "aten"


def _brings_sizes(node: fx.Node) -> bool:
    """True for a node whose result, or its size, is a number that nothing before it has and that later sizes refer
    to."""
    own = symbols_of(node)
    return bool(own) and not own.issubset(symbol for given in node.all_input_nodes for symbol in symbols_of(given))


def _frozen(value: object) -> Any:
    """A hashable key that is equal only for arguments that mean the same: 1 is not 1.0, and 0.0 is not -0.0."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, slice):
        return slice, value.start, value.stop, value.step
    return (type(value), repr(value)) if isinstance(value, (int, float, complex)) else value


JOINT_PASSES: Sequence[JointPass] = (
    forget_unread_statistics,
    replace_ones_like,
    read_constants_in_place,
    share_equal_work,
    drop_dead_code,
)
"""The passes, in the order in which they run."""
