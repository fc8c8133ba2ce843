"""Tapes: what the evaluation of a call asked of the module, relied on, and recorded, in its order.

A tape names no value by itself.  Values are slots: the module, tensors among the arguments, and what events give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from capture.errors import Location
from capture.evaluator.equal_calls.facts import of_fake, same_constant
from capture.evaluator.equal_calls.paths import Paths, Refused
from capture.evaluator.equal_calls.recipes import Recipe
from capture.guards.kinds import GuardKind
from capture.values.base import LazyValue, Value, settled
from capture.values.constant import ConstantValue
from capture.values.mapping import DictValue
from capture.values.sequence import ListValue, SliceValue, TupleValue
from capture.values.tensor import TensorValue

Shape = tuple[Any, ...]
"""A value as it is made of slots and constants."""


class Known:
    """The kind of a tensor that was met on another path before the call, and is the module's now."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """An event: a real object was met on a path; what it was is ``fact``, and ``slot`` its value."""

    path: int
    slot: int
    known: bool  # whether the slot, or what stands in its place, was there before
    fact: object


@dataclass(frozen=True, slots=True)
class Guarded:
    """An event: something was relied on of what is on a path."""

    path: int
    kind: GuardKind
    payload: tuple[Any, ...]
    text: str
    location: Location | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event: an operation was recorded on values in slots."""

    target: Any
    method: bool
    args: tuple[Shape, ...]
    kwargs: tuple[tuple[str, Shape], ...]
    result: Shape
    facts: tuple[object, ...]
    location: Location | None  # None where it is the caller's
    recipe: Recipe | None = field(default=None, compare=False)


Event = Wrapped | Guarded | Recorded


@dataclass
class Slots:
    """The values of a call by number: each operand of an event is named by the number that it has here."""

    values: list[Value] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    nodes: dict[fx.Node, int] = field(default_factory=dict)  # of the tensors among them

    def add(self, value: Value) -> int:
        if isinstance(value, TensorValue):
            self.nodes[value.node] = len(self.values)
        self.numbers[id(value)] = len(self.values)
        self.values.append(value)
        return len(self.values) - 1

    def of(self, value: Value) -> int | None:
        return self.numbers.get(id(value))


def shape_of(value: Value, slots: Slots, facts: list[object] | None = None) -> Shape:
    """The shape of a value.  Tensors without a slot get one, where ``facts`` is given to hear of them."""
    value = settled(value)
    known = slots.of(value)
    if known is not None:
        return ("slot", known)
    # Only noted: `finish` refuses a tape with one in it, as nobody knows what it would have been.
    if isinstance(value, LazyValue):
        return ("lazy", value.source)
    # Computed in the graph: an argument, or the result of an event; from elsewhere it is ``outside``.
    if type(value) is TensorValue and value.source is None:
        # As an operand it has to have come in with the call, or from an event.
        if facts is None or value.written:
            raise Refused
        facts.append(of_fake(value.fake))
        return ("slot", slots.add(value))
    if type(value) is ConstantValue:
        return ("constant", type(value.value), repr(value.value), Same(value.value), value.source)
    if type(value) is TensorValue:
        return ("outside", Same(value), of_fake(value.fake))
    if value.source is not None:
        return ("outside", Same(value))
    return _made(value, slots, facts)


def _made(value: Value, slots: Slots, facts: list[object] | None) -> Shape:
    if type(value) is TupleValue and value.cls in (tuple, torch.Size):
        return (value.cls, tuple(shape_of(item, slots, facts) for item in value.items))
    if type(value) is ListValue and value.cls is list:
        return (list, tuple(shape_of(item, slots, facts) for item in value.items))
    if type(value) is SliceValue:
        return (slice, tuple(shape_of(item, slots, facts) for item in value.parts()))
    if type(value) is DictValue and value.cls is dict and all(type(key) is str for key in value.entries):
        return (dict, tuple((key, shape_of(item, slots, facts)) for key, (_, item) in value.entries.items()))
    raise Refused


class Same:
    """An object that is equal to itself alone, or to an equal constant, and is kept alive."""

    __slots__ = ("held",)

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return False
        return self.held is other.held or same_constant(self.held, other.held)

    def __hash__(self) -> int:
        return id(self.held)


def built(shape: Shape, values: Sequence[Value], literal: Any) -> Value:
    """The value of such a shape, made of the values in these slots."""
    kind, *rest = shape
    if kind == "slot":
        return values[rest[0]]
    if kind == "outside":
        held: Value = rest[0].held
        return held
    if kind == "constant":
        return ConstantValue(rest[2].held, rest[3])
    if kind == "lazy":
        raise Refused
    if kind is dict:
        made = DictValue()
        made.entries = {key: (literal(key), built(item, values, literal)) for key, item in rest[0]}
        return made
    items = [built(item, values, literal) for item in rest[0]]
    if kind is slice:
        return SliceValue(*items)
    return ListValue(items) if kind is list else TupleValue(items, cls=kind)


@dataclass
class Tape:
    """The record of one call: what it was called with, what happened, what it gave."""

    paths: Paths
    slots: Slots
    given: tuple[object, ...]
    state: tuple[object, ...]
    events: list[Event] = field(default_factory=list)
    result: Shape = ()
    outside: dict[int, tuple[TensorValue, object]] = field(default_factory=dict)
    """The tensors of other paths that it came upon, with what they were then."""
    given_memories: frozenset[int | None] = frozenset()

    def account(self) -> tuple[object, ...]:
        """All of it that two equal calls have in common."""
        return self.given, tuple(self.paths.steps), tuple(self.events), self.result


def given_shapes(args: Sequence[Value], kwargs: Mapping[str, Value], slots: Slots) -> tuple[object, ...]:
    facts: list[object] = []
    shapes = tuple(shape_of(value, slots, facts) for value in args)
    named = tuple((name, shape_of(value, slots, facts)) for name, value in kwargs.items())
    return shapes, named, tuple(facts)
