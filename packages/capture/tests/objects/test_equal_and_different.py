"""Objects that are equal and yet differ: what one call was compiled for is no other one's, wherever they are held."""

import collections
import enum
import itertools
import os
import random
import types
from typing import NamedTuple

import pytest
import torch
from what_is_seen import differing, outcome

import capture
from capture._engine import are_interchangeable


class P(NamedTuple):
    a: object
    b: object


class Q(NamedTuple):
    a: object
    b: object


class Held(P):
    """Has a ``__dict__``."""


class Number(enum.IntEnum):
    ONE = 1
    THREE = 3


class Flags(enum.IntFlag):
    ONE = 1


class Act(str, enum.Enum):  # noqa: UP042  such classes are many
    RELU = "relu"


class Act2(str, enum.Enum):  # noqa: UP042
    RELU = "relu"


class Text(str):
    pass


class Int(int):
    pass


class Bare(str):
    __slots__ = ()


class Raw(bytes):
    pass


EQUAL = {
    "ones": (1, True, 1.0, Number.ONE, 1 + 0j, Int(1), Flags.ONE),
    "zeros": (0.0, -0.0, 0, False),
    "texts": ("relu", Act.RELU, Act2.RELU, Text("relu"), Bare("relu")),
    "bytes": (b"a", Raw(b"a")),
    "tuples": ((1, 2), P(1, 2), P(1.0, 2.0), Q(1, 2), (True, 2), Held(1, 2), torch.Size([1, 2]), (1, 2.0)),
    "tuples of texts": (("relu", 1), (Act.RELU, 1), P("relu", 1), P(Act.RELU, 1), P(Text("relu"), 1)),
    "ranges": (range(0, 3, 2), range(0, 4, 2)),
    "empty ranges": (range(0), range(5, 5), range(1, 0, 3)),
    "ranges of one": (range(1), range(0, 1, 5), range(0, 5, 5)),
    "frozensets": (
        *(frozenset({1, "a"}), frozenset({True, "a"}), frozenset({Number.ONE, "a"}), frozenset({1.0, Text("a")})),
        frozenset({1, Text("a")}),
    ),
    "nested": (
        *(frozenset({(1, 2)}), frozenset({P(1, 2)}), frozenset({P(1.0, 2)}), frozenset({(True, 2)})),
        *(frozenset({(1.0, 2)}),),
    ),
    "ranges within": ((range(0), 1), (range(3, 3), 1)),
}
HOLDERS = {
    "itself": (lambda v: v, lambda o: o),
    "list": (lambda v: [v], lambda o: [*o]),
    "tuple": (lambda v: (v, 2), lambda o: (o[0], o)),
    "named tuple": (lambda v: P(v, 2), lambda o: (o.a, o)),
    "set": (lambda v: {v}, lambda o: [*o]),
    "frozenset": (lambda v: frozenset({v}), lambda o: [*o]),
    "key": (lambda v: {v: 1}, lambda o: [*o]),
    "key, items": (lambda v: {v: 1}, lambda o: [*o.items()]),
    "key of an OrderedDict": (lambda v: collections.OrderedDict({v: 1}), lambda o: [*o.keys()]),
    "key of a defaultdict": (lambda v: collections.defaultdict(int, {v: 1}), lambda o: [*o]),
    "key of a named tuple": (lambda v: {P(v, 2): 1}, lambda o: [*o]),
    "key of a tuple": (lambda v: {(v, 2): 1}, lambda o: [*o]),
    "tuple in a set": (lambda v: {(v, 2)}, lambda o: [*o]),
    "tuple in a frozenset": (lambda v: frozenset({(v, 2)}), lambda o: [*o]),
    "frozenset in a key": (lambda v: {frozenset({v}): 1}, lambda o: [[*key] for key in o]),
    "attribute": (lambda v: types.SimpleNamespace(v=v), lambda o: o.v),
    "set at an attribute": (lambda v: types.SimpleNamespace(v={v}), lambda o: [*o.v]),
    "deque": (lambda v: collections.deque([v]), lambda o: [*o]),
    "slice": (lambda v: slice(v, 2), lambda o: (o.start, o)),
}


def pairs(holder):
    """A tenth of all pairs of equal objects, drawn anew in each run; all of them with ``SWEEPS=all``."""
    every = [(name, pair) for name, group in EQUAL.items() for pair in itertools.permutations(group, 2)]
    return every if os.environ.get("SWEEPS") == "all" else random.sample(every, len(every) // 10)


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.without_graphs("of some objects CPython looks at what they are", cases="some")
def test_equal_objects_are_told_apart(holder):
    hold, look = HOLDERS[holder]

    def calls(compiled, pair):
        function = compiled(lambda x, o: (x + 1, look(o)))
        return [outcome(function, torch.ones(2), hold(value)) for value in (*pair, pair[0])]

    assert differing(((f"{name}: {pair!r}", pair) for name, pair in pairs(holder)), calls) == []


ATTRIBUTES = {
    "bounds": (lambda o: (o.start, o.stop, o.step, repr(o)), (range(0, 3, 2), range(0, 4, 2))),
    "fields": (lambda o: [(key.a, key.b) for key in o], ({P(1, 2): 1}, {P(1.0, 2.0): 1})),
    "members": (lambda o: [isinstance(item, Act) for item in o], ({"relu"}, {Act.RELU})),
    "names": (lambda o: [getattr(item, "name", "none") for item in o], (frozenset({1}), frozenset({Number.ONE}))),
    "sums": (lambda o: sum(o), ({True}, {1.0})),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.without_graphs("of some objects CPython looks at what they are", cases="some")
def test_what_is_read_of_an_equal_object_is_its_own(name):
    look, pair = ATTRIBUTES[name]

    def calls(compiled, _):
        function = compiled(lambda x, o: (x * 2, look(o)))
        return [outcome(function, torch.ones(2), value) for value in (*pair, *pair)]

    assert differing([(name, pair)], calls) == []


@pytest.mark.parametrize("group", EQUAL)
def test_what_is_interchangeable_is_of_one_type_and_content(group):
    held = [(hold(left), hold(right), left, right) for hold, _ in HOLDERS.values() for left, right in pairs_of(group)]
    assert [pair[2:] for pair in held if are_interchangeable(*pair[:2])] == []


def pairs_of(group):
    return itertools.permutations(EQUAL[group], 2)


@pytest.mark.parametrize("make", [lambda: {P(1, 2): 3.0}, lambda: {("a", frozenset({1, "b"}), 2.0): 3.0}])
def test_keys_of_the_same_content_are_one_version(make):
    seen_by = []
    function = capture.optimize(lambda graph, inputs: seen_by.append(1) or graph)(
        lambda x, d: x * next(iter(d.values()))
    )
    for _ in range(3):
        assert function(torch.ones(2), make()).tolist() == [3.0, 3.0]
    assert seen_by == [1]
