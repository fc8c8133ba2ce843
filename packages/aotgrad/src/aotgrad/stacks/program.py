"""Programs of parts: each part is compiled once, and flat code calls them one after another.

Must not know: how layers were found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.errors import Unsupported
from aotgrad.facts import Facts
from aotgrad.source import Source
from aotgrad.stacks.borders import has_fixed_layout
from aotgrad.stacks.modes import sets_grad
from aotgrad.stacks.split import Direct, Part, PartCall, Split
from aotgrad.torch_versions import set_grad_enabled
from aotgrad.tracing.inputs import Signature

Call = Callable[..., Sequence[Any]]
CompilePart = Callable[[Part, list[Any], Callable[[Signature, Facts], None]], Call]


class CannotSplit(Unsupported):
    """A graph whose parts would do to one another's values what only the whole graph may do."""


def compile_parts(gm: fx.GraphModule, found: Split, compile_part: CompilePart) -> Call:
    """The whole graph as one callable.  Layers that repeat are compiled first: they show soonest whether it can be
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
    call = _written(gm, found, compiled, writing)
    # After an error nothing has been written: the caller may run the program in eager from its beginning.
    call.all_or_nothing = not _raises_after_writing(found, writing)  # type: ignore[attr-defined]
    return call


def _insist_on_own_values(part: Part, signature: Signature, facts: Facts) -> None:
    """Raises unless a part writes only to the graph's own inputs, where autograd does not follow (buffers, what
    optimizers change), and to values of other parts without gradients."""
    for mutation in facts.mutations:
        node = part.inputs[signature.inputs[mutation.input].position]
        followed = node.op != "placeholder" and node.meta["example_value"].requires_grad
        if followed or mutation.tracked or mutation.layout is not None:
            raise CannotSplit("a layer changes what another one computed", "the graph is compiled as a whole")


def _raises_after_writing(found: Split, writing: set[int]) -> bool:
    """True if an error of the program may come after something was written; one part raises before it writes."""
    first = _first_that_writes(found, writing)
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


def _written(gm: fx.GraphModule, found: Split, compiled: dict[int, Call], writing: set[int]) -> Call:
    """The flat code that calls the parts."""
    source, output, finals = Source(), gm.graph.output_node(), Finals()
    names = {node: f"a{place}" for place, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    arguments = ", ".join(names.values())
    source.names.update({f"part_{number}": call for number, call in compiled.items()})
    source.add(f"def call({arguments}{', /' if arguments else ''}):")
    sets_modes = any(isinstance(call, Direct) and sets_grad(call.node) for call in found.calls)
    first = _first_that_writes(found, writing)
    if sets_modes:
        source.names.update(is_grad_enabled=torch.is_grad_enabled, set_grad_enabled=set_grad_enabled)
        source.add("mode = is_grad_enabled()", 1)
    if first is not None:
        source.names["finals"] = finals
        source.add("written = False", 1)
    indent = 1 if first is None and not sets_modes else 2
    if indent == 2:
        source.add("try:", 1)
    last = _last_uses(found, output)
    taken = {node for call in found.calls if isinstance(call, PartCall) for node in call.inputs}
    for place, call in enumerate(found.calls):
        names.update({node: f"v{place}_{order}" for order, node in enumerate(call.outputs)})
        source.add(_line(source, call, names), indent)
        if place == first:
            source.add("written = True", indent)
        for node in call.outputs:
            if node in taken:
                _write_layout(source, names[node], node.meta["example_value"], indent)
        gone = [names[node] for node in last.get(place, ()) if node.op != "placeholder"]
        if gone:
            source.add(f"del {', '.join(gone)}", indent)
    returned = [names[node] if isinstance(node, fx.Node) else source.literal(node) for node in output.args[0]]
    source.add(f"return ({', '.join(returned)}{',' if len(returned) == 1 else ''})", indent)
    if indent == 2:
        source.add("except BaseException as error:", 1)
        if sets_modes:
            source.add("set_grad_enabled(mode)", 2)
        if first is not None:
            source.add("if written: finals.add(error)", 2)
        source.add("raise", 2)
    whole: Call = source.build("layers")["call"]
    whole.is_final = finals.is_final  # type: ignore[attr-defined]
    return whole


def _line(source: Source, call: PartCall | Direct, names: Mapping[fx.Node, str]) -> str:
    if isinstance(call, Direct):
        node = call.node
        target = source.constant(node.target, getattr(node.target, "__name__", "operator"))
        leaf = lambda value: names[value] if isinstance(value, fx.Node) else None  # noqa: E731
        return f"{names[node]} = {source.call(target, node.args, node.kwargs.items(), leaf)}"
    results = ", ".join(names[node] for node in call.outputs)
    given = ", ".join(names[node] for node in call.inputs)
    return f"{f'{results}, = ' if results else ''}part_{call.part}({given})"


def _write_layout(source: Source, name: str, expected: object, indent: int) -> None:
    """Writes the line that gives a value the layout of eager, for which the parts that take it were compiled."""
    if not isinstance(expected, torch.Tensor):
        return
    if not has_fixed_layout(expected):
        source.add(f"if not {name}.is_contiguous(): {name} = {name}.contiguous()", indent)
        return
    shape, strides = tuple(expected.shape), tuple(expected.stride())
    laid_out = source.constant(as_laid_out, "as_laid_out")
    source.add(f"if {name}.stride() != {strides}: {name} = {laid_out}({name}, {shape}, {strides})", indent)


def as_laid_out(value: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    """The value in the expected layout; strides of dimensions with at most one element do not matter."""
    if all(size <= 1 or one == other for size, one, other in zip(shape, value.stride(), strides, strict=True)):
        return value
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device).copy_(value)


def _last_uses(found: Split, output: fx.Node) -> dict[int, list[fx.Node]]:
    """For each call the values that nobody reads after it."""
    last: dict[fx.Node, int] = {}
    for place, call in enumerate(found.calls):
        last.update(dict.fromkeys((*call.outputs, *call.inputs), place))
    gone: dict[int, list[fx.Node]] = {}
    returned = set(output.all_input_nodes)
    for node, place in last.items():
        if node not in returned:
            gone.setdefault(place, []).append(node)
    return gone
