"""Subclasses of tuple: their own `__new__` and `__init__` run once, and not again where they are built."""

import collections

import pytest
import torch

import capture

RAN = []
Pair = collections.namedtuple("Pair", "a b")


class ByItems(tuple):
    def __new__(cls, *items):
        RAN.append(("new", len(items)))
        return super().__new__(cls, items)

    def __init__(self, *items):
        RAN.append(("init", len(self)))


class OfTwo(tuple):
    def __new__(cls, a, b):
        return tuple.__new__(cls, (a, b))


class Initialised(tuple):
    def __init__(self, items):
        RAN.append(("init", len(self)))


class Below(Initialised):
    def __init__(self, items):
        super().__init__(items)
        RAN.append("below")


class SomethingElse(tuple):
    def __new__(cls, *items):
        return items

    def __init__(self, *items):
        RAN.append("never")


class Named(Pair):
    def __new__(cls, a):
        RAN.append("new")
        return super().__new__(cls, a, a)


PROGRAMS = {
    "by items": lambda x: ByItems(x, 2),
    "of constants": lambda x: ByItems(1, 2),
    "of two": lambda x: OfTwo(1, x),
    "initialised": lambda x: Initialised([x, 2]),
    "below": lambda x: Below((x,)),
    "something else": lambda x: SomethingElse(x, 1),
    "named": lambda x: Named(x),
    "held over a break": lambda x: (OfTwo(1, x), ByItems(2), print(end="")),
    "sizes": lambda x: (x.size(), torch.Size((1, 2)), x.sort()),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_tuples_are_made_as_in_cpython(program):
    found = []
    function = PROGRAMS[program]
    for called in (function, capture.optimize("eager")(lambda x: (x + 1, function(x))[1])):
        RAN.clear()
        made = called(torch.ones(2))
        found.append((repr(made), type(made), [*RAN]))
    assert found[0] == found[1]
