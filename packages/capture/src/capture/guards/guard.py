"""Guards: what a recorded graph relies on, and their translation to the engine's tree of checks.

A guard is a source and a check, or a relation between several sources.  It knows how to be said as a sentence; it
does not know who asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import torch

from capture.errors import Location
from capture.guards.sources import FormulaSource, Inputs, Source

Spec = tuple[Any, ...]

RELATIONS = frozenset({"same", "distinct", "memory", "condition", "class", "relation"})
"""Kinds of guards without a source of their own.  Their payload: the sources, the question that the engine asks of
them, and the Python function of a call that answers where the engine cannot."""


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
    """``kind`` and ``payload`` are those of the engine's checks; ``location`` is the line that relied on it."""

    source: Source | None
    kind: str
    payload: tuple[Any, ...]
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
            known = f"{subject} {_PREDICATES.get(self.kind, self.kind)} {_shown(self)}".rstrip()
            object.__setattr__(self, "_sentence", known)  # said in records and kept for when it fails
        return known

    def wanted_words(self) -> str | None:
        """The object that the guard wants, in the words of ``describe``; None where its own text tells of it."""
        if self.kept_words is not None or self.text or self.kind not in ("is", "type", "tensor"):
            return self.kept_words
        return f"a {_shown(self)}" if self.kind == "type" else _shown(self)

    def failure(self, inputs: Inputs) -> Failure:
        """The guard's failure in a call for which it does not hold."""
        return Failure(f"expected that {self.sentence()}{self._actual(inputs)}", self.location)

    def _actual(self, inputs: Inputs) -> str:
        """The end of that sentence: what is found now, told apart even where both look the same in words."""
        if self.kind == "distinct" and self.payload:
            return f", but {_coinciding(self.payload, inputs)}"
        if self.source is None:
            return ", which no longer holds"
        try:
            value = self.source.read(inputs)
        except (AttributeError, KeyError, IndexError, ValueError, TypeError):
            return ", but it is absent"
        # A tensor's words tell neither strides nor odd bits: where all else fits, one of them is the difference.
        if self.kind == "tensor" and _fits_but_for_strides(self.payload[0], value):
            return _odd_bit(self.payload[0], value) or f", but its strides are {tuple(value.stride())}"
        found = describe(value)
        return f", but it is {_another(self.kind, value) if found == self.wanted_words() else found}"


_PREDICATES = {
    "type": "is a",
    "is": "is the same object:",
    "equals": "equals",
    "length": "has length",
    "tensor": "is a",
    "keys": "has the keys",
    "empty": "holds nothing under",
    "true": "is true",
    "false": "is false",
    "absent": "does not exist",
    "python": "satisfies a check",
}


def _coinciding(payload: tuple[Any, ...], inputs: Inputs) -> str:
    """The first two of the paths that lead to one object."""
    sources, count = payload[:2]
    objects = [source.read(inputs) for source in sources]
    for position, found in enumerate(objects):
        for first in range(min(position, count)):
            if objects[first] is found:
                return f"{sources[position].expression()} is {sources[first].expression()}"
    return "they were"


def describe(value: Any) -> str:
    """A short account of any object, never its contents; by its type alone, which runs no code of the program."""
    if issubclass(type(value), torch.Tensor) and not answers_by_code(type(value)):
        sizes = None if value.is_nested else tuple(value.shape)
        return _tensor_words(type(value), value.dtype, value.device, value.requires_grad, sizes)
    if type(value) in (int, float, complex, bool, str, bytes, type(None)):
        return repr(value)[:80]
    if type(value) in (list, tuple, dict, set):
        return f"a {type(value).__name__} of length {len(value)}"
    if issubclass(type(value), (type, FunctionType, BuiltinFunctionType)):
        return str(value.__qualname__)
    return f"a {type(value).__qualname__}"


def _another(kind: str, value: object) -> str:
    """Words for the object found where the expected one would be described in the same words."""
    if kind != "is" or issubclass(type(value), type):
        return "of another class of the same name" if kind != "is" else "another class of the same name"
    if type(value) is FunctionType:
        return f"another function of the same name, made at line {value.__code__.co_firstlineno}"
    if type(value) is CodeType:
        return f"that of `{value.co_qualname}`, made at line {value.co_firstlineno}"
    return f"another object of class `{type(value).__qualname__}`"


def answers_by_code(cls: type) -> bool:
    """True if tensors of this class may compute in Python what they are asked for, sizes among it."""
    named = next(vars(base)["__torch_dispatch__"] for base in cls.__mro__ if "__torch_dispatch__" in vars(base))
    return named is not vars(torch.Tensor)["__torch_dispatch__"]


def _tensor_words(cls: type, dtype: object, device: Any, requires_grad: bool, sizes: Any) -> str:
    kind = "tensor" if cls is torch.Tensor else cls.__name__
    shape = "any shape" if sizes is None else "(" + ", ".join("*" if s is None else str(s) for s in sizes) + ")"
    grad = ", requires grad" if requires_grad else ""
    return f"{str(dtype).removeprefix('torch.')} {kind} of shape {shape} on {device}{grad}"


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


def _shown(guard: Guard) -> str:
    """The payload as the end of a sentence."""
    payload = guard.payload
    if guard.kind == "tensor":
        return _tensor_words(*payload[0][:5])
    if guard.kind == "type":
        return str(payload[0].__qualname__)
    if not payload or guard.kind == "python":
        return ""
    return describe(payload[0]) if guard.kind == "is" else _listed(payload[0])[:120]


def _listed(value: object) -> str:
    """The value itself, but for tensors, as the keys of an optimizer's state are: their numbers say nothing."""
    if isinstance(value, torch.Tensor):
        return describe(value)
    if type(value) is tuple and any(isinstance(item, torch.Tensor) for item in value):
        return f"({', '.join(map(_listed, value[:3]))}{', ...' if len(value) > 3 else ''})"
    return repr(value)


def _key(source: Source | None, kind: str, payload: tuple[object, ...]) -> tuple[object, ...]:
    """Equal keys say the same: nothing is asked of one path in two ways, but by Python code and of several paths."""
    return source, kind, payload if kind == "python" or kind in RELATIONS else None


class GuardSet:
    """The guards of one translation, each kept once, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._guards: dict[object, Guard] = {}

    def has(self, source: Source | None, kind: str, payload: tuple[Any, ...]) -> bool:
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
    # A guard's position is its name: a failed check reports it, and `GuardSet.all` has the guard there.
    for index, guard in enumerate(guards):
        if guard.kind not in RELATIONS:
            assert guard.source is not None
            _node_of(guard.source, root, nodes).checks.append((guard.kind, index, *guard.payload))
            continue
        sources, question, function = guard.payload
        for source in sources:
            if source not in slots:
                slots[source] = len(slots)
                _node_of(source, root, nodes).checks.append(("keep", index, slots[source]))
        # A relation is not on one path: the walk keeps the values on all its paths, and it is asked when they are
        # there.
        relations.append((guard.kind, index, tuple(slots[source] for source in sources), question, function))
    return root.spec(), tuple(sorted(relations, key=lambda relation: relation[0] == "relation"))


def of_formula(formula: FormulaSource, kind: str, wanted: Any) -> tuple[object, ...]:
    """The payload of a relation that checks a number which Python computes anew for each call.

    The engine finds no such number on a path, so that a check of a path will not do.
    """
    assert kind in ("python", "equals"), kind
    return (), None, partial(_is_answered, formula, wanted if kind == "python" else partial(_is_number, wanted))


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
