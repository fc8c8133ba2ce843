"""The autograd.Function around a compiled pair, written as flat code for exactly the values that this pair has.

Must not know: mutation and aliasing; `calling/wrapper.py` restores those around it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch

from aotgrad.autograd_graph.saved_inputs import Noted, grouped, refuse_written
from aotgrad.autograd_graph.saved_tensors import Behind, refuse_partial_checkpoint, refuse_second_time
from aotgrad.backward.absent_tangents import has_known_sizes, saved_read, without_tangents
from aotgrad.backward.batched_tangents import is_batched
from aotgrad.backward.double_backward import (
    Again,
    ResultsRead,
    compute_again,
    inputs_read,
    plainly_applied,
    results_read,
)
from aotgrad.backward.freeing import Freeing, Held, keeps_graph, results_of, saved_by
from aotgrad.errors import Unsupported, refuse_miscount
from aotgrad.partitioning.partition import Half, Pair
from aotgrad.roles import Gradient, Primal, Result, Saved, SavedSize, Tangent, UpdatedInput
from aotgrad.source import Source
from aotgrad.tensors.symbols import size_hint
from aotgrad.tensors.views import root_of
from aotgrad.torch_versions import DisableAutocast, version_of
from aotgrad.tracing.joint import JointGraph

Boxed = Callable[[list[Any]], Sequence[Any]]

_DOUBLE_BACKWARD = "this gradient was computed by a compiled backward and cannot be differentiated again: "
_FREED = (
    "it depends on a result that was freed with another result of the same function; specify retain_graph=True when "
    "calling .backward() or autograd.grad() for that one"
)
_WRITTEN = "a result of the same function was modified by an inplace operation since"


@dataclass(frozen=True, slots=True)
class Layout:
    """The outputs of forward: values for the caller, saved sizes, saved tensors."""

    values: int
    tensors: int
    sizes: int
    saved: int
    differentiable: tuple[int, ...]
    kept: tuple[int, ...]  # inputs that computing the gradients again reads
    changed: frozenset[int]  # inputs that get a history of this very function: kept, they would keep it for ever
    behind: tuple[Behind, ...]  # each differentiable value
    noted: Noted  # inputs that autograd saved and this function did not

    @property
    def order(self) -> tuple[int, ...]:
        """The values in the order in which autograd gets them, those first that it follows: torch asserts where a
        node's second result keeps its gradient and is then written to."""
        return (*self.differentiable, *(each for each in range(self.values) if each not in self.differentiable))


def differentiable_function(
    joint: JointGraph, pair: Pair, forward: Boxed, compile_backward: Callable[[Half], Boxed]
) -> Callable[..., Any]:
    """A function of the graph's inputs that autograd can differentiate."""
    source, layout, (results,) = Source(), layout_of(joint, pair), results_read(joint)
    # What is freed, and when, decides what the generated code saves and checks.
    freeing = _freeing_of(layout, pair, results)
    _write_forward(source, layout, freeing, results, _saved_views(pair))
    _write_backward(source, layout, pair, freeing)
    source.names.update(
        Function=torch.autograd.Function,
        inner_forward=forward,
        refuse_miscount=refuse_miscount,
        is_grad_enabled=torch.is_grad_enabled,
        keep_graph=keeps_graph,
        as_they_came=as_they_came,
        changed=layout.changed,
        again=DifferentiableBackward(joint, pair, layout, (results,)),
        zeros=torch.zeros,
        dense=_dense,
        batched=is_batched,
        in_format=_in_format,
        fewer=FewerTangents(pair.backward, compile_backward),
        refuse_second_time=refuse_second_time,
        Held=Held,
        saved_by=saved_by,
        over=freeing.is_over,
        refuse_partial_checkpoint=refuse_partial_checkpoint,
        refuse_written=refuse_written,
    )
    namespace = source.build("autograd function")
    namespace["inner_backward"] = _compiled_on_first_call(lambda: compile_backward(pair.backward), namespace)
    compiled = namespace["Compiled"]
    return apart_from(unconnected(joint), _as_forward_has_them(layout, plainly_applied(compiled)))


def _as_forward_has_them(layout: Layout, apply: Callable[..., Any]) -> Callable[..., Any]:
    """`apply` with its values in the order of the graph's."""
    if layout.order == tuple(range(layout.values)):
        return apply
    in_order = itemgetter(*map(layout.order.index, range(layout.values)))
    return lambda *inputs: in_order(apply(*inputs))


def unconnected(joint: JointGraph) -> frozenset[int]:
    """Inputs that autograd cannot come to from any result, though they require grad.

    Where no input has a gradient all stay, because results that autograd follows must hang on something.
    """
    gradients = {role.input for role in joint.outputs if isinstance(role, Gradient) and not role.passed}
    if not gradients:
        return frozenset()
    # A gradient of a gradient may pass an input that the gradient itself does not.
    read = {*gradients, *inputs_read(joint)}
    roles = (node.meta["role"] for node in joint.graph.find_nodes(op="placeholder"))
    given = [role for role in roles if not isinstance(role, Tangent)]
    return frozenset(
        index
        for index, role in enumerate(given)
        if index not in read and isinstance(role, Primal) and role.requires_grad and not role.reached
    )


def apart_from(unconnected: frozenset[int], apply: Callable[..., Any]) -> Callable[..., Any]:
    """`apply` with those inputs detached: asking for the gradient of one is an error at once, and no backward runs for
    it."""
    if not unconnected:
        return apply
    return lambda *inputs: apply(
        *(value.detach() if index in unconnected else value for index, value in enumerate(inputs))
    )


def layout_of(joint: JointGraph, pair: Pair) -> Layout:
    """The layout of a pair's forward outputs."""
    roles = pair.forward.outputs
    sizes = sum(isinstance(role, SavedSize) for role in roles)
    saved = sum(isinstance(role, Saved) for role in roles)
    marked = [i for i, role in enumerate(roles) if isinstance(role, (UpdatedInput, Result)) and role.differentiable]
    tensors = sum(isinstance(role, (UpdatedInput, Result)) for role in roles)
    changed = frozenset(mutation.input for mutation in pair.facts.mutations if mutation.tracked)
    # Which inputs are read again is not what forward saves: gradients of gradients need more.
    kept = inputs_read(joint)
    own = _saved_inputs(pair)
    noted = grouped([frozenset(saved for saved in each.inputs if saved.input not in own) for each in joint.behind])
    return Layout(len(roles) - sizes - saved, tensors, sizes, saved, tuple(marked), kept, changed, joint.behind, noted)


def inputs_to_note(joint: JointGraph, pair: Pair) -> tuple[Noted, tuple[int, ...]]:
    """The inputs that nobody may write to until backward, and the positions of the results among forward's values."""
    layout = layout_of(joint, pair)
    return layout.noted, layout.differentiable


def _saved_inputs(pair: Pair) -> set[int]:
    """The inputs that forward saves as they are, with their versions."""
    graph = pair.forward.module.graph
    given = {node: number for number, node in enumerate(graph.find_nodes(op="placeholder"))}
    returned = zip(graph.output_node().args[0], pair.forward.outputs, strict=True)
    return {given[node] for node, role in returned if isinstance(role, Saved) and node in given}


def _saved_views(pair: Pair) -> list[bool]:
    """For each saved tensor whether it is a view: one made without gradients, of a tensor that autograd gives a history
    afterwards, could not be read in backward."""
    returned = zip(pair.forward.module.graph.output_node().args[0], pair.forward.outputs, strict=True)
    return [root_of(node) is not node for node, role in returned if isinstance(role, Saved)]


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{index}" for index in range(count)]


def _write_forward(source: Source, layout: Layout, freeing: Freeing, read: ResultsRead, views: list[bool]) -> None:
    values, sizes, saved = _names("v", layout.values), _names("n", layout.sizes), _names("s", layout.saved)
    source.add("class Compiled(Function):")
    source.add("@staticmethod", 1)
    source.add("def forward(ctx, *inputs):", 1)
    results = [*values, *sizes, *saved]
    source.add(f"try: {', '.join(results)}, = inner_forward([*inputs])", 2)
    source.add(f"except (TypeError, ValueError) as e: refuse_miscount(e, 'forward', {len(results)}); raise", 2)
    if sizes:
        source.add(f"ctx.sizes = ({', '.join(sizes)},)", 2)
    source.add("ctx.inputs = as_they_came(inputs, changed)" if layout.changed else "ctx.inputs = inputs", 2)
    source.add("try:", 2)
    source.add(f"ctx.versions = ({''.join(f'inputs[{i}]._version, ' for i in layout.kept)})", 3)
    source.add("except RuntimeError: ctx.versions = None", 2)  # tensors made in inference mode have none
    for name in values[: layout.tensors]:  # a view of what nobody else has could not be changed in place
        source.add(f"if {name}._is_view(): {name} = {name}.detach()", 2)
    held = [f"{name}.detach()" if is_view else name for name, is_view in zip(saved, views, strict=True)]
    freeing.write_forward(source, held, [values[layout.differentiable[number]] for number in read.own])
    constant = [name for index, name in enumerate(values[: layout.tensors]) if index not in layout.differentiable]
    if constant:
        source.add(f"ctx.mark_non_differentiable({', '.join(constant)})", 2)
    if len(layout.differentiable) > 1:
        source.add(
            f"ctx.like = ({', '.join(f'(v{i}.shape, v{i}.dtype, v{i}.device)' for i in layout.differentiable)},)", 2
        )
    # Or autograd would fill in zeros, and nobody could tell which gradients did arrive.
    source.add("ctx.set_materialize_grads(False)", 2)
    given = [values[index] for index in layout.order]
    source.add(f"return {', '.join(given)}{',' if len(given) == 1 else ''}", 2)


def _write_backward(source: Source, layout: Layout, pair: Pair, freeing: Freeing) -> None:
    arriving = [f"t{index}" if index in layout.differentiable else f"_{index}" for index in layout.order]
    tangents = [f"t{index}" for index in layout.differentiable]
    source.add("@staticmethod", 1)
    source.add(f"def backward(ctx, {', '.join(arriving)}):", 1)
    # Autograd calls it also where no user of the results gave a gradient at all.
    source.add(f"if {' is '.join([*tangents, 'None'])}: return {', '.join(['None'] * len(pair.forward.inputs))}", 2)
    # With some tangents absent a shorter backward is compiled; where zeros of its sizes could not be written, they are
    # filled in instead, and gradients that come of those alone are None all the same.
    fewer = len(tangents) > 1 and has_known_sizes(pair.backward)
    freeing.write_checks(source, tangents)
    _write_version_checks(source, tangents, layout)
    # Somebody wants to differentiate the gradients: `create_graph=True`.
    source.add("if is_grad_enabled():", 2)
    source.add(f"return again(Compiled.backward, ctx, ({', '.join(arriving)},))", 3)
    if len(tangents) > 1:
        source.add(f"absent = {{k for k, t in enumerate(({', '.join(tangents)},)) if t is None}}", 2)
    # Kept as they arrive, before layouts are changed below.
    passed_on = gradients_passed_on(pair.backward)
    if passed_on or fewer:
        source.add(f"arrived = {', '.join(tangents)},", 2)
    for order, (name, node) in enumerate(zip(tangents, tangent_values(pair), strict=True)):
        if len(tangents) > 1 and not fewer:
            like = f"ctx.like[{order}]"
            source.add(f"if {name} is None: {name} = zeros({like}[0], dtype={like}[1], device={like}[2])", 2)
        _write_tangent(source, f"{name} is not None and " if fewer else "", name, node)
    saved = [*(["*ctx.sizes"] if layout.sizes else []), *([freeing.read()] if layout.saved else []), *tangents]
    source.add(f"inputs = [{', '.join(saved)}]", 2)
    freeing.write_freeing(source)
    _write_gradients(source, pair, len(tangents), fewer)
    returned = {role.input: f"g{role.input}" for role in gradients_of(pair.backward)}
    returned |= {role.input: f"arrived[{order}]" for role, order in passed_on.items()}
    names = [returned.get(index, "None") for index in range(len(pair.forward.inputs))]
    source.add(f"return {', '.join(names)}{',' if len(names) == 1 else ''}", 2)


def _write_version_checks(source: Source, tangents: Sequence[str], layout: Layout) -> None:
    for group in range(len(layout.noted.groups)):
        pairs = zip(tangents, layout.noted.of_results, strict=True)
        arrives = (f"{tangent} is not None" for tangent, noted in pairs if noted == group)
        source.add(f"if {' or '.join(arrives)}: refuse_written(ctx, {group})", 2)


def _freeing_of(layout: Layout, pair: Pair, read: ResultsRead) -> Freeing:
    spares = len(layout.differentiable) > 1 and has_known_sizes(pair.backward)
    return Freeing(layout.behind, layout.saved, spares, len(read.own), read.computed_again)


def gradients_passed_on(half: Half) -> dict[Gradient, int]:
    """Gradients that are a tangent as it stands, by its number: eager hands it on as it came, in whatever layout."""
    graph = half.module.graph
    tangents = [node for node in graph.find_nodes(op="placeholder") if isinstance(node.meta["role"], Tangent)]
    pairs = zip(graph.output_node().args[0], half.outputs, strict=True)
    return {role: tangents.index(node) for node, role in pairs if isinstance(role, Gradient) and node in tangents}


def tangent_values(pair: Pair) -> list[torch.Tensor]:
    inputs = zip(pair.backward.inputs, pair.backward.example_inputs, strict=True)
    return [value for role, value in inputs if isinstance(role, Tangent)]


def _write_tangent(source: Source, arrives: str, name: str, expected: torch.Tensor) -> None:
    """Writes the line that brings a tangent into the layout which backward was traced with."""
    layout = memory_layout(expected)
    if layout is torch.contiguous_format:
        source.add(f"if {arrives}not {name}.is_contiguous(): {name} = {name}.contiguous()", 2)
    elif isinstance(layout, torch.memory_format):
        fmt = source.constant(layout, "format")
        source.add(
            f"if {arrives}(batched({name}) or not {name}.is_contiguous(memory_format={fmt})): "
            f"{name} = in_format({name}, {fmt})",
            2,
        )
    else:
        source.add(f"if {arrives}not {name}.permute({layout}).is_contiguous(): {name} = dense({name}, {layout})", 2)


def _write_gradients(source: Source, pair: Pair, tangents: int, fewer: bool) -> None:
    gradients = {role.input: role for role in pair.backward.outputs if isinstance(role, Gradient)}
    run = (
        "(fewer(absent, inputs, arrived) if absent else inner_backward(inputs))" if fewer else "inner_backward(inputs)"
    )
    names = [f"g{index}" for index in gradients]
    if names:
        source.add(f"try: {', '.join(names)}, = {run}", 2)
        source.add(f"except (TypeError, ValueError) as e: refuse_miscount(e, 'backward', {len(names)}); raise", 2)
    else:
        source.add(run, 2)
    # Zeros stood in for absent tangents: a gradient of those alone is undefined in eager, not zero.
    if tangents > 1 and not fewer:
        source.add("if absent:", 2)
        for index, role in gradients.items():
            needs = "{" + ", ".join(map(str, role.tangents)) + "}"
            source.add(f"if absent.issuperset({needs}): g{index} = None", 3)


def memory_layout(value: torch.Tensor) -> torch.memory_format | tuple[int, ...]:
    """The memory format of a dense tensor, or its dimensions from the outermost in memory to the innermost."""
    for layout in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d):
        ranks = {torch.channels_last: 4, torch.channels_last_3d: 5}
        if ranks.get(layout, value.dim()) == value.dim() and value.is_contiguous(memory_format=layout):
            return layout
    return tuple(sorted(range(value.dim()), key=lambda dim: -size_hint(value.stride(dim))))


_ORDERS = {
    torch.contiguous_format: None,
    torch.channels_last: (0, 2, 3, 1),
    torch.channels_last_3d: (0, 2, 3, 4, 1),
}


def _in_format(value: torch.Tensor, layout: torch.memory_format) -> torch.Tensor:
    """`contiguous` for any tensor: of those of a transform torch's own knows one format only."""
    order = _ORDERS[layout]
    if order is not None and is_batched(value):
        return _dense(value, order)
    arranged: torch.Tensor = value.contiguous(memory_format=layout)
    return arranged


def _dense(value: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return value.permute(order).contiguous().permute(inverse)


class DifferentiableBackward:
    """The backward for callers that want a graph of it (`create_graph`); made for each set of absent tangents when that
    occurs first.

    ``read``: for each stage, the results that it takes with their histories.
    """

    def __init__(self, joint: JointGraph, pair: Pair, layout: Layout, read: Sequence[ResultsRead]) -> None:
        self._joint, self._pair, self._layout, self._read = joint, pair, layout, read
        self._lock = threading.Lock()
        self._made: dict[frozenset[int], Again | str] = {}

    def __call__(self, backward: Callable[..., Any], ctx: Any, tangents: Sequence[Any]) -> Any:
        found = self.by_role(ctx, tangents[: len(self._layout.differentiable)])
        if isinstance(found, str):
            return _once(backward, ctx, tangents, found)
        gradients: list[Any] = [None] * len(ctx.inputs)
        for role, gradient in found.items():
            gradients[role.input] = gradient
        return tuple(gradients)

    def by_role(
        self, ctx: object, arriving: Sequence[object], place: int = 0, below: Mapping[int, torch.Tensor] | None = None
    ) -> dict[Gradient, Any] | str:
        """The gradients for these tangents of the stage at `place`, or the reason why they cannot be differentiated;
        ``below``: the histories of results of other stages."""
        absent = frozenset(index for index, tangent in enumerate(arriving) if tangent is None)
        with self._lock:
            if absent not in self._made:
                self._made[absent] = self._make(self._read[place], absent)
        made = self._made[absent]
        return made if isinstance(made, str) else self._by_role(made, ctx, arriving, self._read[place].own, below or {})

    def _make(self, read: ResultsRead, absent: frozenset[int]) -> Again | str:
        try:
            return compute_again(self._joint, self._pair, read, absent)
        except Unsupported as error:
            return str(error)

    def _by_role(
        self, again: Again, ctx: Any, arriving: Sequence[Any], own: Sequence[int], below: Mapping[int, torch.Tensor]
    ) -> dict[Gradient, Any] | str:
        held = any(each.held for each, t in zip(self._layout.behind, arriving, strict=True) if t is not None)
        saved = saved_by(ctx, again.holds) if held or again.taken else ()  # raises if they are gone or were written to
        if ctx.versions is not None:
            for index, version in zip(self._layout.kept, ctx.versions, strict=True):
                if index in again.read and version != version_of(ctx.inputs[index]):
                    raise RuntimeError(
                        "an input of a compiled function was modified by an inplace operation since its call"
                    )
        try:
            results = results_of(ctx, saved, self._layout.saved) if again.own else ()
        except RuntimeError:
            if len(again.own) == len(own):
                raise
            return _WRITTEN
        if results is None:
            return _FREED
        given = [arranged(ctx, *each) for each in enumerate(zip(arriving, tangent_values(self._pair), strict=True))]
        given += [saved[index] for index in again.taken]
        given += [results[own.index(number)] for number in again.own]
        given += [below[number] for number in again.below]
        with DisableAutocast():
            found = again.run([*ctx.inputs, *given])
        gradients: dict[Gradient, Any] = dict.fromkeys(gradients_of(self._pair.backward))
        gradients.update(zip(again.roles, found, strict=True))
        return gradients


def arranged(ctx: Any, order: int, arrived: tuple[Any, torch.Tensor]) -> torch.Tensor:
    """A tangent in the layout that it was traced with; zeros for one that did not arrive."""
    tangent, expected = arrived
    if tangent is None:
        shape, dtype, device = ctx.like[order]
        tangent = torch.zeros(shape, dtype=dtype, device=device)
    layout = memory_layout(expected)
    if isinstance(layout, torch.memory_format):
        return _in_format(tangent, layout)
    return _dense(tangent, layout)


def _once(backward: Callable[..., Any], ctx: Any, tangents: Sequence[Any], reason: str) -> Any:
    """Gradients that cannot be differentiated again, and raise the reason where somebody tries."""
    reached_from = ctx.inputs
    with torch.no_grad():
        gradients = backward(ctx, *tangents)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    return refused(reason, gradients, [*reached_from, *tangents])


def refused(reason: str, gradients: Sequence[object], reached_from: Sequence[object]) -> Any:
    return _Refused.apply(_DOUBLE_BACKWARD + reason, tuple(gradients), *reached_from)


def as_they_came(inputs: Sequence[object], changed: Collection[int]) -> tuple[Any, ...]:
    """The inputs; those about to be changed as other tensors, with the history that they have until then."""
    with torch.enable_grad():
        return tuple(_AsItCame.apply(value) if index in changed else value for index, value in enumerate(inputs))


class _AsItCame(torch.autograd.Function):
    """The identity, as a node of its own between a tensor and its history."""

    @staticmethod
    def forward(ctx: object, value: torch.Tensor) -> torch.Tensor:
        return value.detach()

    @staticmethod
    def backward(ctx: object, gradient: object) -> Any:
        return gradient


class _Refused(torch.autograd.Function):
    """Hands gradients on, and raises where autograd would go on from them to what they depend on."""

    @staticmethod
    def forward(ctx: Any, reason: str, gradients: tuple[Any, ...], *reached_from: Any) -> tuple[Any, ...]:
        ctx.reason = reason
        return tuple(g if g is None else g.detach() for g in gradients)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(ctx.reason)


class FewerTangents:
    """The backward for calls in which some tangents do not arrive; compiled for each set of absent ones that occurs."""

    def __init__(self, backward: Half, compile_backward: Callable[[Half], Boxed]) -> None:
        self._backward, self._compile = backward, compile_backward
        self._lock = threading.Lock()
        self._halves: dict[frozenset[int], Half] = {}
        self._compiled: dict[frozenset[int], Boxed] = {}

    def half(self, absent: frozenset[int]) -> Half:
        if absent not in self._halves:
            self._halves[absent] = without_tangents(self._backward, absent)
        return self._halves[absent]

    def reads(self, absent: Collection[int]) -> list[bool]:
        """For each saved tensor whether it is read then: a write to another one is no error."""
        key = frozenset(absent)
        with self._lock:
            return saved_read(self._backward, self.half(key))

    def __call__(self, absent: set[int], inputs: list[object], arrived: Sequence[object]) -> list[Any]:
        key = frozenset(absent)
        with self._lock:
            half = self.half(key)
            if key not in self._compiled:
                self._compiled[key] = self._compile(half)
        taken = set(half.inputs)
        given = [value for role, value in zip(self._backward.inputs, inputs, strict=True) if role in taken]
        # The list is the caller's reference: cleared, inputs are freed as early as the graph allows.
        inputs.clear()
        found = dict(zip(gradients_of(half), self._compiled[key](given), strict=True))
        here = [tangent for number, tangent in enumerate(arrived) if number not in absent]
        found.update((role, here[order]) for role, order in gradients_passed_on(half).items())
        return [found.get(role) for role in gradients_of(self._backward)]


def gradients_of(half: Half) -> list[Gradient]:
    return [role for role in half.outputs if isinstance(role, Gradient)]


def _compiled_on_first_call(compile_backward: Callable[[], Boxed], namespace: dict[str, Any]) -> Boxed:
    """A backward that is compiled when it is first needed, and then puts the compiled function in its place."""
    lock = threading.Lock()

    def first_call(inputs: list[Any]) -> Sequence[Any]:
        with lock:
            if namespace["inner_backward"] is first_call:
                namespace["inner_backward"] = compile_backward()
        run: Boxed = namespace["inner_backward"]
        return run(inputs)

    return first_call
