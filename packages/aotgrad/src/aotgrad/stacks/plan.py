"""The plan of a program of parts, as frozen data: which part is called with which values, one call after another.

Values are numbered: first the arguments, then what the calls give.
Must not know: how the program is written, what the parts are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from aotgrad.stacks.borders import has_fixed_layout
from aotgrad.stacks.modes import sets_grad
from aotgrad.stacks.split import Direct, PartCall, Split


@dataclass(frozen=True, slots=True)
class Value:
    """Stands in arguments for the value of this number."""

    number: int


@dataclass(frozen=True, slots=True)
class Laid:
    """A value that a part is given later, in the layout that it was compiled for; without strides it is contiguous."""

    number: int
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartStep:
    """The call of a part, or of a function of torch's, and the values that nobody reads after it."""

    part: int | None
    target: object
    args: tuple[object, ...]
    kwargs: tuple[tuple[str, object], ...]
    results: tuple[int, ...]
    laid: tuple[Laid, ...]
    gone: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StackPlan:
    """All that the program is made of, beside its parts.  ``writes`` is the step after which something is written,
    ``stacks`` tells of how many layers of how many operators each stack is."""

    arity: int
    steps: tuple[PartStep, ...]
    returned: tuple[object, ...]
    writes: int | None
    sets_modes: bool
    all_or_nothing: bool
    stacks: tuple[tuple[int, int], ...]


def plan_of(gm: fx.GraphModule, found: Split, writes: int | None, *, all_or_nothing: bool) -> StackPlan:
    placeholders, output = gm.graph.find_nodes(op="placeholder"), gm.graph.output_node()
    numbers = {node: number for number, node in enumerate(placeholders)}
    last = _last_uses(found, output)
    taken = {node for call in found.calls if isinstance(call, PartCall) for node in call.inputs}
    steps = []
    for place, call in enumerate(found.calls):
        args, kwargs = _given(call, numbers)
        for node in call.outputs:
            numbers[node] = len(numbers)
        laid = [_laid(numbers[node], node.meta["example_value"]) for node in call.outputs if node in taken]
        gone = tuple(numbers[node] for node in last.get(place, ()) if node.op != "placeholder")
        part, target = (None, call.node.target) if isinstance(call, Direct) else (call.part, None)
        results = tuple(numbers[node] for node in call.outputs)
        steps.append(PartStep(part, target, args, kwargs, results, tuple(each for each in laid if each), gone))
    returned = tuple(_with_numbers(node, numbers) for node in output.args[0])
    sets_modes = any(isinstance(call, Direct) and sets_grad(call.node) for call in found.calls)
    repeated = ((found.times(number), part) for number, part in enumerate(found.parts))
    stacks = tuple((times, len(part.module.graph.nodes)) for times, part in repeated if times > 1)
    return StackPlan(len(placeholders), tuple(steps), returned, writes, sets_modes, all_or_nothing, stacks)


def _given(
    call: PartCall | Direct, numbers: dict[fx.Node, int]
) -> tuple[tuple[object, ...], tuple[tuple[str, object], ...]]:
    if isinstance(call, PartCall):
        return tuple(Value(numbers[node]) for node in call.inputs), ()
    args = tuple(_with_numbers(value, numbers) for value in call.node.args)
    return args, tuple((name, _with_numbers(value, numbers)) for name, value in call.node.kwargs.items())


def _with_numbers(value: object, numbers: dict[fx.Node, int]) -> object:
    if isinstance(value, fx.Node):
        return Value(numbers[value])
    if type(value) is tuple:
        return tuple(_with_numbers(each, numbers) for each in value)
    return [_with_numbers(each, numbers) for each in value] if isinstance(value, list) else value


def _laid(number: int, expected: object) -> Laid | None:
    if not isinstance(expected, torch.Tensor):
        return None
    if not has_fixed_layout(expected):
        return Laid(number)
    return Laid(number, tuple(expected.shape), tuple(expected.stride()))


def _last_uses(found: Split, output: fx.Node) -> dict[int, Sequence[fx.Node]]:
    """The values that nobody reads after a call."""
    last: dict[fx.Node, int] = {}
    for place, call in enumerate(found.calls):
        last.update(dict.fromkeys((*call.outputs, *call.inputs), place))
    gone: dict[int, list[fx.Node]] = {}
    returned = set(output.all_input_nodes)
    for node, place in last.items():
        if node not in returned:
            gone.setdefault(place, []).append(node)
    return dict(gone)
