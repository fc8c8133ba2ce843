"""The kinds of guards: the one list of what may be asked, and a row for each of what is done by its kind.

A kind has a text, by which the engine and stored versions know it; code asks which member it is, never what it says.
What another room does by kinds is a table of that room's own, keyed by members.  Must not know who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from capture.guards.words import describe, listed, tensor_words

Payload = tuple[Any, ...]


class GuardKind(Enum):
    """The questions that guards ask: of the object on a path, or, as a relation, of those on several."""

    # Of the object on one path.
    TYPE = "type"
    """Is it of this very class?"""
    IS = "is"
    """Is it this very object?"""
    EQUALS = "equals"
    """Is it a constant of the same type and value, digit for digit?"""
    LENGTH = "length"
    """Does it hold this many items?"""
    TENSOR = "tensor"
    """Is it a tensor of this class, dtype, device, layout and history, of these sizes and strides so far as told?"""
    KEYS = "keys"
    """Is it a dict of these keys in this order?"""
    EMPTY = "empty"
    """Is it a dict that holds an empty dict under each of these names?"""
    TRUE = "true"
    """Is its truth true?"""
    FALSE = "false"
    """Is its truth false?"""
    ABSENT = "absent"
    """Does the path lead nowhere?"""
    PYTHON = "python"
    """Does this Python function say yes to it?"""
    ITEMS = "items"
    """Is it a set of exactly these strings and numbers?"""
    AT = "at"
    """Is it the object at this address, which must not be kept alive?"""
    REFERS = "refers"
    """Is it a weak reference to what this one refers to?"""

    # Of the objects on several paths, or of none: relations.
    SAME = "same"
    """Is one object on all of the paths?"""
    DISTINCT = "distinct"
    """Is none of the first so many objects any other one of them?"""
    MEMORY = "memory"
    """Do these tensors share memory as they did?"""
    CONDITION = "condition"
    """Does this condition on sizes and numbers hold?"""
    CLASS = "class"
    """Does this class of the program behave as it did?"""
    RELATION = "relation"
    """Does this Python function of the whole call say yes?"""

    __hash__ = object.__hash__  # each member is one object: by the name, in Python code, it would cost more


def _contents(payload: Payload) -> str:
    return listed(payload[0])[:120] if payload else ""


def _object(payload: Payload) -> str:
    return describe(payload[0])


def _tensor(payload: Payload) -> str:
    return tensor_words(*payload[0][:5])


def _class(payload: Payload) -> str:
    return str(payload[0].__qualname__)


def _nothing(_: Payload) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Needs:
    """The row of a kind of guards: how such a guard is said, handed to the engine, and kept with a version."""

    words: str | None = None
    """The words of a sentence between the path and the payload; None where each guard has a text of its own."""
    end: Callable[[Payload], str] = _contents
    """The payload as the end of such a sentence."""
    wanted: Callable[[Payload], str] | None = None
    """The object that is wanted, as ``describe`` puts it; None where the guard wants none."""
    relation: bool = False
    """True if the engine is given a relation, which has no path of its own, and no check on a path."""
    stays: bool = False
    """True if the payload stays when a version is kept: it is asked for once the guard fails, and holds no object."""


NEEDS: Mapping[GuardKind, Needs] = {
    GuardKind.TYPE: Needs("is a", _class, wanted=lambda payload: f"a {_class(payload)}"),
    GuardKind.IS: Needs("is the same object:", _object, wanted=_object),
    GuardKind.EQUALS: Needs("equals", stays=True),
    GuardKind.LENGTH: Needs("has length", stays=True),
    GuardKind.TENSOR: Needs("is a", _tensor, wanted=_tensor, stays=True),
    GuardKind.KEYS: Needs("has the keys"),
    GuardKind.EMPTY: Needs("holds nothing under"),
    GuardKind.TRUE: Needs("is true"),
    GuardKind.FALSE: Needs("is false"),
    GuardKind.ABSENT: Needs("does not exist"),
    GuardKind.PYTHON: Needs("satisfies a check", _nothing),
    GuardKind.ITEMS: Needs(),
    GuardKind.AT: Needs(),
    GuardKind.REFERS: Needs(),
    GuardKind.SAME: Needs(relation=True),
    GuardKind.DISTINCT: Needs(relation=True, stays=True),
    GuardKind.MEMORY: Needs(relation=True),
    GuardKind.CONDITION: Needs(relation=True),
    GuardKind.CLASS: Needs(relation=True),
    GuardKind.RELATION: Needs(relation=True),
}

RELATIONS = frozenset(kind for kind, needs in NEEDS.items() if needs.relation)
"""Kinds of guards without a source of their own.  Their payload: the sources, the question that the engine asks of
them, and the Python function of a call that answers where the engine cannot."""
