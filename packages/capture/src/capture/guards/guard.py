"""Guards: what a recorded graph relies on, and their translation to the engine's tree of checks.

A guard is a source and a check, or a relation between several sources.  It knows how to be said as a sentence; it
does not know who asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import torch

from capture.errors import Location
from capture.guards.kinds import NEEDS, RELATIONS, GuardKind, Payload
from capture.guards.sources import FormulaSource, Inputs, Source
from capture.guards.words import describe

Spec = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """A guard that does not hold: what was assumed and what came instead, and the line that assumed it."""

    said: str
    location: Location | None = None

    def __str__(self) -> str:
        where = self.location
        return self.said if where is None else f"{self.said} (assumed at {where.filename}:{where.line}: {where.source})"


@dataclass(frozen=True)
class Guard:
    """A question of the object on a path, or of several; ``location`` is the line that relied on the answer.

    What a payload is goes by the kind, and is what the engine's check or relation of that kind is given.
    """

    source: Source | None
    kind: GuardKind
    payload: Payload
    location: Location | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)
    kept_words: str | None = field(default=None, compare=False)
    """The answer of ``wanted_words`` where the payload is gone."""

    def sentence(self) -> str:
        """The guard in words: records show it, and errors that a failed guard leads to."""
        if self.text:
            return self.text
        known: str | None = self.__dict__.get("_sentence")
        if known is None:
            subject = self.source.expression() if self.source is not None else "the arguments"
            needs = NEEDS[self.kind]
            known = f"{subject} {needs.words or self.kind.value} {needs.end(self.payload)}".rstrip()
            object.__setattr__(self, "_sentence", known)  # said in records and kept for when it fails
        return known

    def wanted_words(self) -> str | None:
        """The object that the guard wants, in the words of ``describe``; None where its own text tells of it."""
        words = NEEDS[self.kind].wanted
        if self.kept_words is not None or self.text or words is None:
            return self.kept_words
        return words(self.payload)

    def failure(self, inputs: Inputs) -> Failure:
        """The guard's failure in a call for which it does not hold."""
        return Failure(f"expected that {self.sentence()}{self._actual(inputs)}", self.location)

    def _actual(self, inputs: Inputs) -> str:
        """The end of that sentence: what is found now, told apart even where both look the same in words."""
        if self.kind is GuardKind.DISTINCT and self.payload:
            return f", but {_coinciding(self.payload, inputs)}"
        if self.source is None:
            return ", which no longer holds"
        try:
            value = self.source.read(inputs)
        except (AttributeError, KeyError, IndexError, ValueError, TypeError):
            return ", but it is absent"
        # A tensor's words tell neither strides nor odd bits: where all else fits, one of them is the difference.
        if self.kind is GuardKind.TENSOR and _fits_but_for_strides(self.payload[0], value):
            return _odd_bit(self.payload[0], value) or f", but its strides are {tuple(value.stride())}"
        found = describe(value)
        return f", but it is {_another(self.kind, value) if found == self.wanted_words() else found}"


def _coinciding(payload: Payload, inputs: Inputs) -> str:
    """The first two of the paths that lead to one object."""
    sources, count = payload[:2]
    objects = [source.read(inputs) for source in sources]
    for position, found in enumerate(objects):
        for first in range(min(position, count)):
            if objects[first] is found:
                return f"{sources[position].expression()} is {sources[first].expression()}"
    return "they were"


def _another(kind: GuardKind, value: object) -> str:
    """Words for the object found where the expected one would be described in the same words."""
    if kind is not GuardKind.IS:
        return "of another class of the same name"
    if issubclass(type(value), type):
        return "another class of the same name"
    if type(value) is FunctionType:
        return f"another function of the same name, made at line {value.__code__.co_firstlineno}"
    if type(value) is CodeType:
        return f"that of `{value.co_qualname}`, made at line {value.co_firstlineno}"
    return f"another object of class `{type(value).__qualname__}`"


def _fits_but_for_strides(expected: tuple[Any, ...], value: Any) -> bool:
    """True if a tensor differs from the expected one in nothing that is shown of a tensor."""
    if type(value) is not expected[0] or value.is_nested or value.layout is not torch.strided:
        return False
    actual = (type(value), value.dtype, value.device, value.requires_grad)
    sizes = expected[4]
    return (
        actual == expected[:4]
        and len(sizes) == value.dim()
        and all(size in (None, found) for size, found in zip(sizes, value.shape, strict=True))
    )


def _odd_bit(expected: tuple[Any, ...], value: object) -> str:
    """The conjugate or negative bit that differs, in words; nothing where none does."""
    odd = (name for name, wanted in expected[6] if getattr(value, name)() != wanted)
    return next((f", but its `{name}()` is {getattr(value, name)()}" for name in odd), "")


def _key(source: Source | None, kind: GuardKind, payload: tuple[object, ...]) -> tuple[object, ...]:
    """Equal keys say the same: nothing is asked of one path in two ways, but by Python code and of several paths."""
    return source, kind, payload if kind is GuardKind.PYTHON or kind in RELATIONS else None


class GuardSet:
    """The guards of one translation, each kept once, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._guards: dict[object, Guard] = {}

    def has(self, source: Source | None, kind: GuardKind, payload: Payload) -> bool:
        return _key(source, kind, payload) in self._guards

    def add(self, guard: Guard) -> None:
        self._guards.setdefault(_key(guard.source, guard.kind, guard.payload), guard)

    def all(self) -> list[Guard]:
        return list(self._guards.values())


def to_spec(guards: Iterable[Guard]) -> tuple[Spec, tuple[Spec, ...]]:
    """The engine's tree: one node per distinct path, checks in order; a check's index is the guard's position.

    And the relations, those first that ask no Python code, with the slots in which the walk keeps their values.
    """
    root = _Node(("root",))
    nodes: dict[Source, _Node] = {}
    slots: dict[Source, int] = {}
    relations: list[Spec] = []
    in_python: list[Spec] = []
    # A guard's position is its name: a failed check reports it, and `GuardSet.all` has the guard there.
    for index, guard in enumerate(guards):
        if guard.kind not in RELATIONS:
            assert guard.source is not None
            _node_of(guard.source, root, nodes).checks.append((guard.kind.value, index, *guard.payload))
            continue
        sources, question, function = guard.payload
        for source in sources:
            if source not in slots:
                slots[source] = len(slots)
                _node_of(source, root, nodes).checks.append(("keep", index, slots[source]))
        # A relation is not on one path: the walk keeps the values on all its paths, and it is asked when they are
        # there.
        asked = in_python if guard.kind is GuardKind.RELATION else relations
        asked.append((guard.kind.value, index, tuple(slots[source] for source in sources), question, function))
    return root.spec(), (*relations, *in_python)


def of_formula(formula: FormulaSource, kind: GuardKind, wanted: Any) -> tuple[object, ...]:
    """The payload of a relation that checks a number which Python computes anew for each call.

    The engine finds no such number on a path, so that a check of a path will not do.
    """
    assert kind in (GuardKind.PYTHON, GuardKind.EQUALS), kind
    holds = wanted if kind is GuardKind.PYTHON else partial(_is_number, wanted)
    return (), None, partial(_is_answered, formula, holds)


def _is_answered(formula: FormulaSource, holds: Callable[[object], bool], *call: Any) -> bool:
    """True if the formula's number in a call, of a function and its arguments, passes the check."""
    try:
        return holds(formula.read(Inputs(call[0], call[1:])))
    except Exception:  # noqa: BLE001 - whatever it raises, the evaluation of that call will meet it
        return False


def _is_number(wanted: float, found: object) -> bool:
    """True for the very same number: ``repr`` tells the two zeros apart, and NaN is itself."""
    return type(found) is type(wanted) and repr(found) == repr(wanted)


def _node_of(source: Source, root: _Node, nodes: dict[Source, _Node]) -> _Node:
    """The node of the engine's tree for a path, made with those that lead to it where they are missing."""
    node = nodes.get(source)
    if node is None:
        parent = root if source.base is None else _node_of(source.base, root, nodes)
        node = nodes[source] = _Node(source.accessor())
        parent.children.append(node)
    return node


@dataclass
class _Node:
    accessor: tuple[object, ...]
    checks: list[tuple[object, ...]] = field(default_factory=list)
    children: list[_Node] = field(default_factory=list)

    def spec(self) -> Spec:
        # Arguments vary more often than closures and globals: they are looked at first.
        children = sorted(self.children, key=lambda child: child.accessor[0] != "arg")
        return (self.accessor, tuple(self.checks), tuple(child.spec() for child in children))
