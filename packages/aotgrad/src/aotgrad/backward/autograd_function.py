"""The autograd.Function around a compiled pair, written as flat code for exactly the values that this pair has.

Must not know: mutation and aliasing; `calling/wrapper.py` restores those around it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch

from aotgrad.autograd_graph.saved_inputs import refuse_written
from aotgrad.autograd_graph.saved_tensors import refuse_partial_checkpoint, refuse_second_time
from aotgrad.backward.absent_tangents import saved_read
from aotgrad.backward.batched_tangents import is_batched, is_dense
from aotgrad.backward.double_backward import DoubleBackward, ResultsRead, plainly_applied, trace_double_backward
from aotgrad.backward.freeing import Freeing, Held, keeps_graph, results_of, saved_by
from aotgrad.backward.plan import Graphs, Layout, MemoryLayout, Plan, partial_backward
from aotgrad.errors import Unsupported, refuse_miscount
from aotgrad.roles import Gradient
from aotgrad.source import Source
from aotgrad.torch_versions import version_of

Boxed = Callable[[list[Any]], Sequence[Any]]
CompileBackward = Callable[[frozenset[int]], Boxed]
"""For the tangents of these numbers absent."""

_DOUBLE_BACKWARD = "this gradient was computed by a compiled backward and cannot be differentiated again: "
_FREED = (
    "it depends on a result that was freed with another result of the same function; specify retain_graph=True when "
    "calling .backward() or autograd.grad() for that one"
)
_WRITTEN = "a result of the same function was modified by an inplace operation since"


def differentiable_function(
    plan: Plan, graphs: Graphs, forward: Boxed, compile_backward: CompileBackward
) -> Callable[..., Any]:
    """A function of the graph's inputs that autograd can differentiate."""
    source, layout, (results,) = Source(), plan.layout, plan.read
    freeing = _freeing_of(plan)
    _write_forward(source, layout, freeing, results, plan.saved_views)
    _write_backward(source, plan, freeing)
    source.names.update(
        Function=torch.autograd.Function,
        inner_forward=forward,
        refuse_miscount=refuse_miscount,
        is_grad_enabled=torch.is_grad_enabled,
        keep_graph=keeps_graph,
        as_they_came=as_they_came,
        changed=layout.changed,
        again=DifferentiableBackward(plan, graphs),
        zeros=torch.zeros,
        strided=torch.strided,
        dense=_dense,
        batched=is_batched,
        in_format=_in_format,
        fewer=FewerTangents(plan, graphs, compile_backward),
        refuse_second_time=refuse_second_time,
        Held=Held,
        saved_by=saved_by,
        over=freeing.is_over,
        refuse_partial_checkpoint=refuse_partial_checkpoint,
        refuse_written=refuse_written,
    )
    namespace = source.build("autograd function")
    namespace["inner_backward"] = _compiled_on_first_call(lambda: compile_backward(frozenset()), namespace)
    compiled = namespace["Compiled"]
    return with_detached(plan.unconnected, _as_forward_has_them(layout, plainly_applied(compiled)))


def _as_forward_has_them(layout: Layout, apply: Callable[..., Any]) -> Callable[..., Any]:
    """`apply` with its values in the order of the graph's."""
    if layout.order == tuple(range(layout.values)):
        return apply
    in_order = itemgetter(*map(layout.order.index, range(layout.values)))
    return lambda *inputs: in_order(apply(*inputs))


def with_detached(unconnected: frozenset[int], apply: Callable[..., Any]) -> Callable[..., Any]:
    """`apply` with those inputs detached: asking for the gradient of one is an error at once, and no backward runs for
    it."""
    if not unconnected:
        return apply
    return lambda *inputs: apply(
        *(value.detach() if index in unconnected else value for index, value in enumerate(inputs))
    )


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{index}" for index in range(count)]


def _write_forward(source: Source, layout: Layout, freeing: Freeing, read: ResultsRead, views: Sequence[bool]) -> None:
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


def _write_backward(source: Source, plan: Plan, freeing: Freeing) -> None:
    layout = plan.layout
    arriving = [f"t{index}" if index in layout.differentiable else f"_{index}" for index in layout.order]
    tangents = [f"t{index}" for index in layout.differentiable]
    source.add("@staticmethod", 1)
    source.add(f"def backward(ctx, {', '.join(arriving)}):", 1)
    # Autograd comes by also where whatever used the results gave no gradient at all.
    source.add(f"if {' is '.join([*tangents, 'None'])}: return {', '.join(['None'] * plan.inputs)}", 2)
    # With some tangents absent a shorter backward is compiled; where zeros of its sizes could not be written, they are
    # filled in instead, and gradients that come of those alone are None all the same.
    fewer = len(tangents) > 1 and plan.known_sizes
    freeing.write_checks(source, tangents)
    _write_version_checks(source, tangents, layout)
    # Somebody wants to differentiate the gradients: `create_graph=True`.
    source.add("if is_grad_enabled():", 2)
    source.add(f"return again(Compiled.backward, ctx, ({', '.join(arriving)},))", 3)
    if len(tangents) > 1:
        source.add(f"absent = {{k for k, t in enumerate(({', '.join(tangents)},)) if t is None}}", 2)
    # Kept as they arrive, before layouts are changed below.
    if plan.passed_on or fewer:
        source.add(f"arrived = {', '.join(tangents)},", 2)
    for order, (name, expected) in enumerate(zip(tangents, plan.tangents, strict=True)):
        if len(tangents) > 1 and not fewer:
            like = f"ctx.like[{order}]"
            source.add(f"if {name} is None: {name} = zeros({like}[0], dtype={like}[1], device={like}[2])", 2)
        _write_tangent(source, f"{name} is not None and " if fewer else "", name, expected)
    saved = [*(["*ctx.sizes"] if layout.sizes else []), *([freeing.read()] if layout.saved else []), *tangents]
    source.add(f"inputs = [{', '.join(saved)}]", 2)
    freeing.write_freeing(source)
    _write_gradients(source, plan, len(tangents), fewer)
    returned = {role.input: f"g{role.input}" for role in plan.gradients}
    returned |= {role.input: f"arrived[{order}]" for role, order in plan.passed_on}
    names = [returned.get(index, "None") for index in range(plan.inputs)]
    source.add(f"return {', '.join(names)}{',' if len(names) == 1 else ''}", 2)


def _write_version_checks(source: Source, tangents: Sequence[str], layout: Layout) -> None:
    for group in range(len(layout.noted.groups)):
        pairs = zip(tangents, layout.noted.of_results, strict=True)
        arrives = (f"{tangent} is not None" for tangent, noted in pairs if noted == group)
        source.add(f"if {' or '.join(arrives)}: refuse_written(ctx, {group})", 2)


def _freeing_of(plan: Plan) -> Freeing:
    layout, (read,) = plan.layout, plan.read
    spares = len(layout.differentiable) > 1 and plan.known_sizes
    return Freeing(layout.behind, layout.saved, spares, len(read.own), read.computed_again)


def _write_tangent(source: Source, arrives: str, name: str, layout: MemoryLayout) -> None:
    """Bring a tangent into the layout that backward was traced with; a sparse one stays as it is."""
    arrives = f"{arrives}{name}.layout is strided and "
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


def _write_gradients(source: Source, plan: Plan, tangents: int, fewer: bool) -> None:
    gradients = {role.input: role for role in plan.gradients}
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
    """Backward for callers that want a graph of it; made for each set of absent tangents when that occurs first."""

    def __init__(self, plan: Plan, graphs: Graphs) -> None:
        self._plan, self._layout, self._graphs = plan, plan.layout, graphs
        self._lock = threading.Lock()
        self._made: dict[frozenset[int], DoubleBackward | str] = {}

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
        read = self._plan.read[place]
        with self._lock:
            if absent not in self._made:
                self._made[absent] = self._make(read, absent)
        made = self._made[absent]
        return made if isinstance(made, str) else self._by_role(made, ctx, arriving, read.own, below or {})

    def _make(self, read: ResultsRead, absent: frozenset[int]) -> DoubleBackward | str:
        try:
            return trace_double_backward(self._graphs.joint, self._graphs.backward, read, absent)
        except Unsupported as error:
            return str(error)

    def _by_role(
        self,
        again: DoubleBackward,
        ctx: Any,
        arriving: Sequence[Any],
        own: Sequence[int],
        below: Mapping[int, torch.Tensor],
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
        given = [arranged(ctx, *each) for each in enumerate(zip(arriving, self._plan.tangents, strict=True))]
        given += [saved[index] for index in again.taken]
        given += [results[own.index(number)] for number in again.own]
        given += [below[number] for number in again.below]
        found = again.run([*ctx.inputs, *given])
        gradients: dict[Gradient, Any] = dict.fromkeys(self._plan.gradients)
        gradients.update(zip(again.roles, found, strict=True))
        return gradients


def arranged(ctx: Any, order: int, arrived: tuple[Any, MemoryLayout]) -> torch.Tensor:
    """A tangent in the layout that it was traced with; zeros for one that did not arrive."""
    tangent, layout = arrived
    if tangent is None:
        shape, dtype, device = ctx.like[order]
        tangent = torch.zeros(shape, dtype=dtype, device=device)
    if not is_dense(tangent):
        return tangent
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

    def __init__(self, plan: Plan, graphs: Graphs, compile_backward: CompileBackward) -> None:
        self._plan, self._graphs, self._compile = plan, graphs, compile_backward
        self._lock = threading.Lock()
        self._partial = {each.absent: each for each in plan.partial}
        self._compiled: dict[frozenset[int], Boxed] = {}

    def reads(self, absent: Collection[int]) -> list[bool]:
        """The saved tensors that are read then: a write to another one is nobody's concern."""
        with self._lock:
            return saved_read(self._graphs.backward, self._graphs.without(frozenset(absent)))

    def __call__(self, absent: set[int], inputs: list[object], arrived: Sequence[object]) -> list[Any]:
        key = frozenset(absent)
        with self._lock:
            if key not in self._partial:
                self._partial[key] = partial_backward(self._graphs, key)
            if key not in self._compiled:
                self._compiled[key] = self._compile(key)
        partial = self._partial[key]
        given = [inputs[place] for place in partial.taken]
        inputs.clear()
        found = dict(zip(partial.gradients, self._compiled[key](given), strict=True))
        here = [tangent for number, tangent in enumerate(arrived) if number not in absent]
        found.update((role, here[order]) for role, order in partial.passed_on)
        return [found.get(role) for role in self._plan.gradients]


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
