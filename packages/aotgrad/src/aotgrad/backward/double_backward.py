"""Gradients of gradients: the joint graph, run operator by operator under autograd.

A compiled backward is nothing that autograd can look into.  A caller who asks for a graph of the gradients
(`create_graph`) has them computed once more, from forward's inputs and the tangents, by the operators of the joint
graph: autograd follows those, to any order.  What forward drew at random comes from what it saved.  What forward
returned has the history that the caller sees, as in eager: a derivative goes on to its hooks, and through its node.
Must not know: how a compiled pair is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from aotgrad.autograd_graph.missing_gradients import reached_by
from aotgrad.backward.absent_tangents import drop_absent, has_known_sizes, saved_read, without_tangents
from aotgrad.backward.create_graph_formulas import (
    refuse_zeros_in_running_products,
    solve_with_matrices,
    weight_norm_backward,
    written_by_strides,
)
from aotgrad.backward.under_autocast import as_the_mode_is
from aotgrad.eager import Boxed, run_eagerly
from aotgrad.errors import Unsupported
from aotgrad.graph_modules import graph_module
from aotgrad.partitioning.partition import Half, Pair
from aotgrad.random_operators import draws
from aotgrad.recording.draws import dropout_from_mask, is_dropout_mask
from aotgrad.recording.histories import DETACHED, HISTORY, comes_from
from aotgrad.recording.recomputed import REPEATS, with_repeated
from aotgrad.recording.whole_operators import put_together, sources_of
from aotgrad.roles import AliasBase, Gradient, Primal, Result, Saved, Tangent, UpdatedInput
from aotgrad.torch_versions import aten, decomposition_table
from aotgrad.tracing.joint import JointGraph
from aotgrad.tracing.refused import place_of

# Autograd has no formula for these; it has for the smaller operators that they stand for.
_WITHOUT_FORMULA = (
    aten.silu_backward.default,
    aten.mish_backward.default,
    aten.logit_backward.default,
    aten.native_group_norm_backward.default,
)


@dataclass(frozen=True, slots=True)
class DoubleBackward:
    """A function of `[*forward inputs, *tangents, *taken, *own, *below]` to the gradients `roles`.

    `taken` are indices of saved tensors, `own` the numbers of results that come as they are, `below` of those whose
    histories come alone, as `history_of` makes them.  `read` are the forward inputs that must still be unchanged, and
    `holds` says which saved tensors must.
    """

    run: Boxed
    roles: tuple[Gradient, ...]
    taken: tuple[int, ...]
    own: tuple[int, ...]
    below: tuple[int, ...]
    read: frozenset[int]
    holds: Callable[[], Sequence[bool]]


def inputs_read(joint: JointGraph) -> tuple[int, ...]:
    """The forward inputs that must still be unchanged when the gradients are computed again."""
    read = _needed_again(joint)
    return tuple(
        index
        for index, node in enumerate(joint.graph.find_nodes(op="placeholder"))
        if node in read and isinstance(node.meta["role"], (Primal, AliasBase)) and not node.meta["role"].mutated
    )


def inputs_differentiated(joint: JointGraph) -> frozenset[int]:
    """The forward inputs that derivatives of the gradients go on to: not those that a mask is made of."""
    read = _differentiated(joint.graph, _gradients(joint, _roles(joint)))
    placeholders = joint.graph.find_nodes(op="placeholder")
    return frozenset(index for index, node in enumerate(placeholders) if node in read)


def _needed_again(joint: JointGraph) -> set[fx.Node]:
    read = set[fx.Node]()
    pending = _gradients(joint, _roles(joint))
    while pending:
        node = pending.pop()
        if node not in read:
            read.add(node)
            pending.extend([*sources_of(node), *([node.meta[HISTORY]] if HISTORY in node.meta else [])])
    return read


def always_kept(joint: JointGraph) -> set[str]:
    """The names of values that computing the gradients again takes from the saved tensors, if forward saved them."""
    passed = _passed(joint.graph, _gradients(joint, _roles(joint)))
    return {node.name for node in joint.graph.nodes if _may_be_taken(node, passed)}


def _may_be_taken(node: fx.Node, passed: Collection[fx.Node]) -> bool:
    """True if the saved value of this node is taken instead of computing it again."""
    return _lost(node) or (node.op == "call_function" and node not in passed)


def lost_inputs(joint: JointGraph, pair: Pair) -> list[fx.Node]:
    """The inputs that the function changes and whose old values computing the gradients again reads, unless forward
    saves them."""
    saved = {role.name for role in pair.forward.outputs if isinstance(role, Saved)} & always_kept(joint)
    own = set(results_read(joint)[0].own) if not joint.stages else set[int]()
    # Results come as the caller has them: nothing behind them is computed again.
    given = {node for node, number in _results(joint).items() if number in own}
    found: dict[fx.Node, None] = {}
    seen: set[fx.Node] = set()
    pending = _gradients(joint, _roles(joint))
    while pending:
        node = pending.pop()
        if node in seen or node in given:
            continue
        seen.add(node)
        before = node.meta.get(HISTORY)
        pending.extend([before] if before is not None and before.op != "placeholder" else [])
        if node.name in saved:
            continue
        if _lost(node):
            found[node] = None
        pending.extend(_running_statistics_apart(node))
    return list(found)


def _running_statistics_apart(node: fx.Node) -> list[fx.Node]:
    """The inputs of a node; of a batch norm in training, those that its values depend on."""
    if node.target is aten._native_batch_norm_legit_functional.default and node.args[5]:
        return [each for each in (*node.args[:3], *node.args[5:]) if isinstance(each, fx.Node)]
    return sources_of(node)


def _lost(node: fx.Node) -> bool:
    """True for an input that the function writes to."""
    return node.op == "placeholder" and bool(getattr(node.meta.get("role"), "mutated", False))


@dataclass(frozen=True, slots=True)
class ResultsRead:
    """Differentiable results, by number, that the gradients of some of them are computed from: `own` are among those,
    `below` are those that they come from.

    ``computed_again``: a checkpoint computes one of the own again, so that the gradients themselves do not need the
    caller's tensor.
    """

    own: tuple[int, ...] = ()
    below: tuple[int, ...] = ()
    computed_again: bool = False


def results_read(joint: JointGraph) -> tuple[ResultsRead, ...]:
    """For each stage, or for the whole where there are none, the results that a derivative of its gradients passes."""
    followed, numbers = _followed(joint.graph), _results(joint)
    if not joint.stages:
        everything = frozenset(range(len(joint.behind)))
        return (_results_read(joint, everything, frozenset(), dict.fromkeys(followed, everything), numbers),)
    tangents = [node for node in joint.graph.find_nodes(op="placeholder") if isinstance(node.meta["role"], Tangent)]
    reached = reached_by(joint.graph, tangents)
    hangs_on = {node: frozenset(reached[node]) for node in followed}
    below: dict[int, frozenset[int]] = {}
    found = []
    for stage in joint.stages:
        # Directly or through other results.
        behind = stage.passed.union(*(below[number] for number in stage.passed))
        below.update(dict.fromkeys(stage.outputs, behind))
        found.append(_results_read(joint, frozenset(stage.outputs), behind, hangs_on, numbers))
    return tuple(found)


def _results_read(
    joint: JointGraph,
    own: frozenset[int],
    below: frozenset[int],
    hangs_on: Mapping[fx.Node, frozenset[int]],
    numbers: Mapping[fx.Node, int],
) -> ResultsRead:
    """The results among `own` and `below` that the gradients of `own` read first.

    ``hangs_on``: for each value that derivatives go through, the tangents behind it.  Of others a detached value may be
    read.
    """
    seen: set[fx.Node] = set()
    pending = _gradients(joint, [role for role in _roles(joint) if not own.isdisjoint(role.tangents)])
    while pending:
        node = pending.pop()
        # A value that hangs on tangents of other stages alone is none of this gradient's.
        if node not in seen and node in hangs_on and not (hangs_on[node] and own.isdisjoint(hangs_on[node])):
            seen.add(node)
            if node not in numbers:
                pending.extend(comes_from(node))
    read = {node: numbers[node] for node in seen if node in numbers}
    found = sorted(set(read.values()))
    again = own.intersection(read.values()).difference(n for node, n in read.items() if REPEATS not in node.meta)
    return ResultsRead(tuple(n for n in found if n in own), tuple(n for n in found if n in below), bool(again))


def _results(joint: JointGraph) -> dict[fx.Node, int]:
    """The numbers of differentiable results, by the nodes that compute them, in forward or again."""
    roles = [(n, role) for n, role in zip(joint.values, joint.outputs, strict=True) if hasattr(role, "differentiable")]
    marked = enumerate((node, role) for node, role in roles if role.differentiable)
    numbers = {n: number for number, (n, role) in marked if isinstance(role, Result) and n.op == "call_function"}
    return with_repeated(joint.graph, numbers)


def trace_double_backward(
    joint: JointGraph, backward: Half, results: ResultsRead, absent: frozenset[int] = frozenset()
) -> DoubleBackward:
    """The gradients as operators that autograd can follow, but for those that hang on absent tangents alone."""
    roles = tuple(role for role in _roles(joint) if not absent.issuperset(role.tangents))
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.graph_copy(joint.graph, copies)
    graph.output(tuple(copies[node] for node in _gradients(joint, roles)))
    # A mask that nobody reads here goes, and dropout's values still follow from what was saved of it.
    dropouts = {n.name: copy.all_input_nodes[0] for n, copy in copies.items() if is_dropout_mask(copy)}
    # In this order: later steps look at what is still read once absent tangents and saved values have gone.
    put_together(graph, copies)
    drop_absent(graph, absent)
    _go_by_histories(graph, copies, _results(joint))
    _drop_unread(graph)
    refuse_zeros_in_running_products(graph)
    saved = [role.name for role in backward.inputs if isinstance(role, Saved)]
    by_name = {node.name: copies[node] for node in joint.graph.nodes if node in copies}
    taken = _take_saved(graph, by_name, saved, dropouts)
    _drop_unread(graph)
    numbers = {copies[node]: number for node, number in _results(joint).items()}
    numbers = {node: number for node, number in numbers.items() if node.users}
    own = _take_results(graph, {node: number for node, number in numbers.items() if number in results.own})
    below = _take_histories(graph, {node: number for node, number in numbers.items() if number in results.below})
    _use_what_has_a_formula(graph)
    _drop_unread(graph)
    _refuse_lost(graph, joint)
    read = frozenset(index for index, node in enumerate(graph.find_nodes(op="placeholder")) if node.users)

    def holds() -> Sequence[bool]:
        needed = saved_read(backward, without_tangents(backward, absent) if has_known_sizes(backward) else backward)
        return [each or number in taken for number, each in enumerate(needed)]

    module = graph_module(joint.root, graph)
    run = as_the_mode_is(_followed_by_autograd(module), lambda: module, _followed_by_autograd)
    return DoubleBackward(run, roles, taken, own, below, read, holds)


def _followed_by_autograd(module: fx.GraphModule) -> Boxed:
    return run_eagerly(module, (), followed=True)


def _refuse_lost(graph: fx.Graph, joint: JointGraph) -> None:
    """Refuses graphs that read what forward drew at random or wrote over."""
    for node in graph.nodes:
        if draws(node.target):
            raise Unsupported(f"forward did not save what {node.target} drew", "the gradient cannot be computed again")
        if getattr(node.target, "drew", False):
            raise Unsupported(f"{node.name} draws random numbers in its forward", "draw them outside, and pass them")
        if _lost(node) and not all(_takes_history_alone(user, node) for user in node.users):
            raise Unsupported(
                "the function changes an input that its gradients depend on",
                'change a copy of it, or leave the function to eager (with compile-api: backend="eager")',
                _changed_at(joint, node.name),
            )


def _changed_at(joint: JointGraph, name: str) -> str:
    """The line of the program that wrote to an input, where the graph knows it."""
    names = [node.name for node in joint.graph.find_nodes(op="placeholder")]
    written = zip(joint.outputs, joint.values, strict=True)
    values = (value for role, value in written if isinstance(role, UpdatedInput) and names[role.input] == name)
    return next(map(place_of, values), "")


def _roles(joint: JointGraph) -> tuple[Gradient, ...]:
    return tuple(role for role in joint.outputs if isinstance(role, Gradient))


def _gradients(joint: JointGraph, roles: Sequence[Gradient]) -> list[fx.Node]:
    return [node for node, role in zip(joint.values, joint.outputs, strict=True) if role in roles]


def _take_saved(
    graph: fx.Graph, by_name: Mapping[str, fx.Node], saved: Sequence[str], dropouts: Mapping[str, fx.Node]
) -> tuple[int, ...]:
    """Puts inputs in place of values that forward saved and no derivative goes through; returns which saved tensors
    those are.

    Among them is everything drawn at random.  ``dropouts``: those whose mask has a name.
    """
    passed = _passed(graph, [node for node in graph.output_node().args[0] if isinstance(node, fx.Node)])
    taken: list[int] = []
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for index, name in enumerate(saved):
        node = by_name.get(name)
        drawn = dropouts.get(name)
        if node is None or not (drawn.users if drawn else node.users and _may_be_taken(node, passed)):
            continue
        with graph.inserting_after(last):
            last = graph.placeholder(f"taken_{len(taken)}")
        last.meta["val"] = node.meta.get("val")
        # The mask alone is saved; dropout's values follow from it.
        if drawn is not None:
            dropout_from_mask(graph, drawn, mask=last)
        if _lost(node) and node in passed:
            _take_old_value(graph, node, last)
        else:
            node.replace_all_uses_with(last)
        taken.append(index)
    return tuple(taken)


def _take_old_value(graph: fx.Graph, node: fx.Node, value: fx.Node) -> None:
    """Puts the old value of a changed input in its place, with the history with which it came."""
    with graph.inserting_before(next(each for each in graph.nodes if each.op != "placeholder")):
        old = graph.call_function(with_history, (value, node))
    old.meta = {"val": node.meta.get("val")}
    node.replace_all_uses_with(old, lambda user: user is not old and not _takes_history_alone(user, node))


def _takes_history_alone(user: fx.Node, node: fx.Node) -> bool:
    return user.target is with_history and user.args[1] is node and user.args[0] is not node


def _go_by_histories(graph: fx.Graph, copies: Mapping[fx.Node, fx.Node], results: Collection[fx.Node]) -> None:
    """Puts into the graph the places where autograd's history differs from the operators; results have the history that
    the caller sees."""
    stands = dict(copies)
    for node, copy in copies.items():
        before = node.meta.get(HISTORY)
        copy.meta = {key: value for key, value in copy.meta.items() if key not in (DETACHED, HISTORY)}
        if node in results or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        with graph.inserting_after(copy):
            if before is not None:
                if before not in stands:
                    raise Unsupported("what autograd knows of a value is no longer in the graph", "run it eagerly")
                stands[node] = graph.call_function(with_history, (copy, stands[before]))
            # Between values without history nothing has to be cut.
            elif DETACHED in node.meta and not all(DETACHED in user.meta for user in node.users):
                stands[node] = graph.call_function(aten.detach.default, (copy,))
            else:
                continue
        stands[node].meta = dict(copy.meta)
        copy.replace_all_uses_with(stands[node], lambda user, own=stands[node]: user is not own)


def _take_results(graph: fx.Graph, results: Mapping[fx.Node, int]) -> tuple[int, ...]:
    """Puts the results that are read in place of their recomputation; returns their numbers."""
    given = _more_inputs(graph, "own", results)
    for node, number in results.items():
        node.replace_all_uses_with(given[number])
    return tuple(given)


def _take_histories(graph: fx.Graph, results: Mapping[fx.Node, int]) -> tuple[int, ...]:
    """Gives recomputed values the histories of the results that they are; returns the numbers of those."""
    given = _more_inputs(graph, "below", results)
    for node, number in results.items():
        with graph.inserting_after(node):
            value = graph.call_function(with_history, (node, given[number]))
        value.meta = dict(node.meta)
        node.replace_all_uses_with(value, lambda user, own=value: user is not own)
    return tuple(given)


def _more_inputs(graph: fx.Graph, name: str, read: Mapping[fx.Node, int]) -> dict[int, fx.Node]:
    """Further inputs of the graph for the results that are read, by number."""
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    made: dict[int, fx.Node] = {}
    for node, number in read.items():
        if number not in made:
            with graph.inserting_after(last):
                made[number] = last = graph.placeholder(f"{name}_{len(made)}")
            last.meta = {"val": node.meta["val"], "role": Result((), differentiable=True)}
    return made


def plainly_applied(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """The function's ``apply`` without the check for functorch transforms that `torch.autograd.Function` adds: no
    compiled graph takes their tensors."""
    apply: Callable[..., Any] = super(torch.autograd.Function, function).apply
    return apply


def history_of(result: torch.Tensor) -> torch.Tensor:
    """A tensor of next to no memory whose gradient goes where that of `result` goes."""
    history: torch.Tensor = _history(result)
    return history


class _History(torch.autograd.Function):
    """The function from a result to a tensor without memory that shares its history."""

    @staticmethod
    def forward(ctx: object, result: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(result.shape, (0,) * result.dim(), dtype=result.dtype, device=result.device)

    @staticmethod
    def backward(ctx: object, gradient: object) -> Any:
        return gradient


_history = plainly_applied(_History)


def with_history(value: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
    """`value` with the given history instead of its own."""
    result: torch.Tensor = _WithHistory.apply(value.detach(), history)
    return result


class _WithHistory(torch.autograd.Function):
    """The function from a value and a history to the value that has it."""

    @staticmethod
    def forward(ctx: object, value: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
        return value.detach()

    @staticmethod
    def backward(ctx: object, gradient: object) -> tuple[None, Any]:
        return None, gradient


def _followed(graph: fx.Graph) -> set[fx.Node]:
    """The values that derivatives go through: computed from inputs that require grad, neither drawn nor counted."""
    followed: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            follows = getattr(node.meta.get("role"), "requires_grad", "role" in node.meta)
        else:
            follows = not followed.isdisjoint(_goes_on_to(node))
        if follows:
            followed.add(node)
    return followed


def _goes_on_to(node: fx.Node) -> Sequence[fx.Node]:
    return [node.args[1]] if node.target is with_history else comes_from(node)


def _passed(graph: fx.Graph, gradients: Sequence[fx.Node]) -> set[fx.Node]:
    """The values that derivatives of the gradients go through with the history of their operators."""
    return {node for node in _differentiated(graph, gradients) if HISTORY not in node.meta}


def _differentiated(graph: fx.Graph, gradients: Sequence[fx.Node]) -> set[fx.Node]:
    """The values that derivatives of the gradients go through."""
    followed, found = _followed(graph), set[fx.Node]()
    pending = list(gradients)
    while pending:
        node = pending.pop()
        if node in followed and node not in found:
            found.add(node)
            pending.extend(_goes_on_to(node))
    return found


def _use_what_has_a_formula(graph: fx.Graph) -> None:
    solve_with_matrices(graph)
    for node in graph.nodes:
        if node.target in _WITHOUT_FORMULA:
            node.target = decomposition_table[node.target]
        elif node.target is aten._weight_norm_interface_backward.default:
            node.target = weight_norm_backward
        elif node.target in _OF_COMPLEX and node.meta["val"].is_complex():
            node.target = _OF_COMPLEX[node.target]
        elif node.target is aten.copy.default:
            node.target, node.args = _copied, node.args[:2]
        elif node.target is aten.as_strided_scatter.default:
            node.target = written_by_strides
        elif node.target is aten._native_batch_norm_legit_functional.default and node.args[5]:
            # In training its values do not depend on the running statistics, which the call has changed since.
            node.target = aten._native_batch_norm_legit.no_stats
            node.args = (*node.args[:3], *node.args[5:])


def _write_slice(into: torch.Tensor, value: torch.Tensor, dim: int = 0, *at: object) -> torch.Tensor:
    return torch.view_as_complex(aten.slice_scatter(*_as_pairs(into, value), dim % into.dim(), *at))


def _write_item(into: torch.Tensor, value: torch.Tensor, dim: int, at: int) -> torch.Tensor:
    return torch.view_as_complex(aten.select_scatter(*_as_pairs(into, value), dim % into.dim(), at))


_OF_COMPLEX = {aten.slice_scatter.default: _write_slice, aten.select_scatter.default: _write_item}
"""Autograd has a formula for these, of real numbers alone."""


def _as_pairs(into: torch.Tensor, value: torch.Tensor) -> list[torch.Tensor]:
    return [torch.view_as_real(each.to(into.dtype).resolve_conj()) for each in (into, value)]


def _copied(written: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The value of a tensor once all of it was written: with its strides, and with the history that `copy_` gives it,
    which goes on to what was there before, by a gradient of zeros."""
    value = value.to(written.dtype).to(written.device).expand(written.shape)
    if written.requires_grad:
        value = torch.where(torch.ones((), dtype=torch.bool, device=written.device), value, written)
    order = sorted(range(written.dim()), key=written.stride, reverse=True)
    places = sorted(range(written.dim()), key=order.__getitem__)
    return value.permute(order).clone(memory_format=torch.contiguous_format).permute(places)


def _drop_unread(graph: fx.Graph) -> None:
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op in ("call_function", "get_attr"):
            graph.erase_node(node)
