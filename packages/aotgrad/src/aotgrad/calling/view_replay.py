"""View replay: expressions of a wrapper that make outputs by repeating a chain of view operators on the caller's
tensors.

An operator that gives many views at once, `unbind` or `split`, runs once for all of them, as in the program.
Must not know: which outputs there are, and in which order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

from aotgrad.calling.inference_mode import with_gradients, without_gradients
from aotgrad.facts import (
    Argument,
    Base,
    Constant,
    Data,
    Detach,
    Followed,
    Frozen,
    OfInput,
    OfSize,
    Output,
    Restride,
    SizeRef,
    Step,
    Unfollowed,
)
from aotgrad.source import Source
from aotgrad.torch_versions import op_of, set_creation_meta, unsafe_set_version_counter


@dataclass(slots=True)
class _Several:
    """One call that returned several views, and those of them that are outputs already: asked for again, one is another
    object."""

    name: str
    taken: set[int] = field(default_factory=set)


class Outputs:
    """The expressions of outputs that are made at one time, between which nothing is written.

    ``bases``: the names of those that were made at another time, by number.
    """

    def __init__(self, source: Source, name: str, bases: dict[int, str]) -> None:
        self._source = source
        self._name = name
        self._bases = bases
        self._calls: dict[str, list[_Several]] = {}
        self._count = 0

    def expression(self, output: Output | str) -> str:
        """The expression of this output; lines that it needs are added ahead."""
        if isinstance(output, str):
            return output
        if isinstance(output, Constant):
            return self._source.literal(output.value)
        if isinstance(output, OfSize):
            return f"n{output.index}"
        if isinstance(output, Argument):
            return f"a{output.position}"
        return self._path(f"a{output.position}" if isinstance(output, OfInput) else f"r{output.result}", output.steps)

    def _path(self, base: str, steps: Sequence[object]) -> str:
        source = self._source
        for place, step in enumerate(steps):
            if isinstance(step, Base):
                base, steps = self._named_base(step.number, base, steps[:place]), steps[place + 1 :]
                return self._path(base, steps) if steps else base
        made = next((place for place, step in enumerate(steps) if isinstance(step, Unfollowed)), len(steps))
        if made < len(steps) - 1:  # gradients were switched on again behind it
            return self._in_mode(self._path(base, steps[: made + 1]), steps[made + 1 :], ("", ""))
        if steps and isinstance(steps[-1], (Followed, Unfollowed)):
            mode = f"{source.constant(_within, 'within')}({source.constant(_mode_of(steps[-1]), 'mode')}, lambda: "
            return self._in_mode(base, steps[:-1], (mode, ")"))
        if steps and isinstance(steps[-1], Frozen):
            reason = source.constant(steps[-1].made_in, "reason")
            return f"{source.constant(_frozen, 'frozen')}({self._path(base, steps[:-1])}, {reason})"
        return self._in_mode(base, steps, ("", ""))

    def _in_mode(self, base: str, steps: Sequence[object], mode: tuple[str, str]) -> str:
        """The expression of a chain of steps; those up to one of several views become a line of their own."""
        expression, inside = base, False
        for step in steps:
            # One of several views: the call that makes them all is a line, which others may use.
            if isinstance(step, Step) and step.target is operator.getitem:
                several = expression.join(mode) if inside else expression
                expression, inside = f"{self._call(several, step.args[0])}[{step.args[0]}]", False
            else:
                expression, inside = _step(self._source, expression, step, base), True
        return expression.join(mode) if inside else expression

    def _named_base(self, number: int, base: str, steps: Sequence[object]) -> str:
        """The name of a tensor that several outputs have for their base; made where the first asks for it."""
        if number not in self._bases:
            expression = self._path(base, steps)
            self._bases[number] = f"base{number}"
            self._source.add(f"base{number} = {expression}", 1)
        return self._bases[number]

    def _call(self, expression: str, item: int) -> str:
        made = self._calls.setdefault(expression, [])
        several = next((each for each in made if item not in each.taken), None)
        if several is None:
            several = _Several(f"{self._name}{self._count}")
            self._count += 1
            made.append(several)
            self._source.add(f"{several.name} = {expression}", 1)
        several.taken.add(item)
        return several.name


def _step(source: Source, expression: str, step: Any, base: str) -> str:
    if isinstance(step, Data):
        return f"{source.constant(_data, 'data')}({expression}, {step.writes})" if step.writes else f"{expression}.data"
    if isinstance(step, Detach):
        return f"{expression}.detach()"
    if isinstance(step, Restride):
        return f"{expression}.as_strided({layout_arguments(source, step, base)})"
    rest = source.call("", step.args, step.kwargs, _size_name)[1:-1]
    return f"{source.constant(op_of(step.target), 'view')}({expression}{', ' if rest else ''}{rest})"


def _data(tensor: torch.Tensor, writes: int) -> torch.Tensor:
    """The tensor's data, written to that often."""
    data = tensor.data
    if not data.is_inference():
        unsafe_set_version_counter([data], [writes])
    return data


def _mode_of(step: Followed | Unfollowed) -> Callable[[], AbstractContextManager[None]]:
    # Turning gradients on is not enough where inference mode is on.
    within = torch.is_inference_mode_enabled()
    if isinstance(step, Followed):
        return with_gradients if within else torch.enable_grad
    if step.inference:
        return torch.inference_mode
    return without_gradients if within else torch.no_grad


def _within(mode: Callable[[], AbstractContextManager[None]], view: Callable[[], torch.Tensor]) -> torch.Tensor:
    with mode():
        return view()


def _frozen(view: torch.Tensor, reason: object) -> torch.Tensor:
    """The view, marked as one that autograd refuses to write to."""
    if view._is_view():  # where the caller asks for no gradients it is none to autograd
        set_creation_meta(view, reason)
    return view


def _size_name(value: object) -> str | None:
    return f"n{value.index}" if isinstance(value, SizeRef) else None


def layout_arguments(source: Source, layout: Restride, base: str) -> str:
    """Sizes, strides and offset of a layout over `base`."""
    offset = source.literal(layout.offset, _size_name)
    return (
        f"{source.literal(layout.size, _size_name)}, {source.literal(layout.stride, _size_name)}, "
        f"{base}.storage_offset() + {offset}"
    )
