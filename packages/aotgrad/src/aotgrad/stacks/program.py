"""Programs of parts: each part is compiled once, and flat code calls them one after another.

Must not know: how layers were found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.errors import Unsupported
from aotgrad.facts import Facts
from aotgrad.source import Source
from aotgrad.stacks.plan import Laid, PartStep, StackPlan, Value, plan_of
from aotgrad.stacks.split import Direct, Part, PartCall, Split
from aotgrad.torch_versions import set_grad_enabled
from aotgrad.tracing.inputs import Signature

Call = Callable[..., Sequence[Any]]
CompilePart = Callable[[Part, list[Any], Callable[[Signature, Facts], None]], Call]


class CannotSplit(Unsupported):
    """A graph whose parts would do to one another's values what only the whole graph may do."""


def compile_parts(gm: fx.GraphModule, found: Split, compile_part: CompilePart) -> tuple[StackPlan, list[Call]]:
    """The plan of the whole, and the parts.  Layers that repeat are compiled first: they say soonest whether it can be
    done."""
    compiled: dict[int, Call] = {}
    writing: set[int] = set()
    for number in sorted(range(len(found.parts)), key=lambda number: -found.times(number)):
        part = found.parts[number]

        def insist(signature: Signature, facts: Facts, part: Part = part, number: int = number) -> None:
            _insist_on_own_values(part, signature, facts)
            if facts.mutations:
                writing.add(number)

        examples = [node.meta["example_value"] for node in part.inputs]
        compiled[number] = compile_part(part, examples, insist)
    first = _first_that_writes(found, writing)
    plan = plan_of(gm, found, first, all_or_nothing=not _raises_after_writing(found, first))
    return plan, [compiled[number] for number in range(len(found.parts))]


def _insist_on_own_values(part: Part, signature: Signature, facts: Facts) -> None:
    """Raises unless a part writes only to the graph's own inputs, where autograd does not follow (buffers, what
    optimizers change), and to values of other parts without gradients."""
    for mutation in facts.mutations:
        node = part.inputs[signature.inputs[mutation.input].position]
        followed = node.op != "placeholder" and node.meta["example_value"].requires_grad
        if followed or mutation.tracked or mutation.layout is not None:
            raise CannotSplit("a layer changes what another one computed", "the graph is compiled as a whole")


def _raises_after_writing(found: Split, first: int | None) -> bool:
    """True if an error of the program may come after something was written; one part raises before it writes."""
    later = () if first is None else found.calls[first + 1 :]
    return any(_may_raise(call.node) if isinstance(call, Direct) else _may_raise_within(found, call) for call in later)


def _first_that_writes(found: Split, writing: set[int]) -> int | None:
    places = (place for place, call in enumerate(found.calls) if isinstance(call, PartCall) and call.part in writing)
    return next(places, None)


def _may_raise_within(found: Split, call: PartCall) -> bool:
    return any(_may_raise(node) for node in found.parts[call.part].module.graph.nodes if node.op.startswith("call_"))


def _may_raise(node: fx.Node) -> bool:
    """True for a node that may raise for its operands' contents; nodes that take a value apart, or set modes, do
    not."""
    return bool(node.meta.get("may_raise", node.target is torch.autograd.grad))


class Finals:
    """Errors that came after something was written: running the program again would write it twice."""

    def __init__(self) -> None:
        self._errors: dict[int, BaseException] = {}

    def add(self, error: BaseException) -> None:
        self._errors[id(error)] = error

    def is_final(self, error: BaseException) -> bool:
        return self._errors.pop(id(error), None) is not None


def stack_call(plan: StackPlan, parts: Sequence[Call]) -> Call:
    """The program that a plan says, around its parts."""
    source, finals = Source(), Finals()
    arguments = ", ".join(f"v{number}" for number in range(plan.arity))
    source.names.update({f"part_{number}": call for number, call in enumerate(parts)})
    source.add(f"def call({arguments}{', /' if arguments else ''}):")
    if plan.sets_modes:
        source.names.update(is_grad_enabled=torch.is_grad_enabled, set_grad_enabled=set_grad_enabled)
        source.add("mode = is_grad_enabled()", 1)
    if plan.writes is not None:
        source.names["finals"] = finals
        source.add("written = False", 1)
    indent = 1 if plan.writes is None and not plan.sets_modes else 2
    if indent == 2:
        source.add("try:", 1)
    for place, step in enumerate(plan.steps):
        source.add(_line(source, step), indent)
        if place == plan.writes:
            source.add("written = True", indent)
        for laid in step.laid:
            _write_layout(source, laid, indent)
        if step.gone:
            source.add(f"del {', '.join(f'v{number}' for number in step.gone)}", indent)
    returned = [source.literal(each, _name) for each in plan.returned]
    source.add(f"return ({', '.join(returned)}{',' if len(returned) == 1 else ''})", indent)
    if indent == 2:
        source.add("except BaseException as error:", 1)
        if plan.sets_modes:
            source.add("set_grad_enabled(mode)", 2)
        if plan.writes is not None:
            source.add("if written: finals.add(error)", 2)
        source.add("raise", 2)
    whole: Call = source.build("layers")["call"]
    whole.is_final = finals.is_final  # type: ignore[attr-defined]
    whole.all_or_nothing = plan.all_or_nothing  # type: ignore[attr-defined]
    whole.raises_where_noted = True  # type: ignore[attr-defined]
    whole.stacks = plan.stacks  # type: ignore[attr-defined]
    return whole


def _name(value: object) -> str | None:
    return f"v{value.number}" if isinstance(value, Value) else None


def _line(source: Source, step: PartStep) -> str:
    results = ", ".join(f"v{number}" for number in step.results)
    if step.part is None:
        target = source.constant(step.target, getattr(step.target, "__name__", "operator"))
        return f"{results} = {source.call(target, step.args, step.kwargs, _name)}"
    given = ", ".join(source.literal(each, _name) for each in step.args)
    return f"{f'{results}, = ' if results else ''}part_{step.part}({given})"


def _write_layout(source: Source, laid: Laid, indent: int) -> None:
    """A part that is given a value was compiled for the layout that eager gives it."""
    name = f"v{laid.number}"
    if laid.stride is None:
        source.add(f"if not {name}.is_contiguous(): {name} = {name}.contiguous()", indent)
        return
    laid_out = source.constant(as_laid_out, "as_laid_out")
    source.add(f"if {name}.stride() != {laid.stride}: {name} = {laid_out}({name}, {laid.shape}, {laid.stride})", indent)


def as_laid_out(value: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    """The value in the expected layout; strides of dimensions with at most one element do not matter."""
    if all(size <= 1 or one == other for size, one, other in zip(shape, value.stride(), strides, strict=True)):
        return value
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device).copy_(value)
