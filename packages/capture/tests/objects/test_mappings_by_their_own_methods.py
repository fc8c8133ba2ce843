"""Mappings whose class shows other items than it holds, and lists that are no mappings: as CPython walks them."""

import types

import pytest
import torch

import capture


class Shown(dict):
    def __iter__(self):
        return iter(["shown"])

    def keys(self):
        return ["shown"]

    def __getitem__(self, key):
        return 9


class Pairs(list):
    pass


def passed(**given):
    return given


ASKED = {
    "merged": lambda o: o | {"z": 1},
    "merged with itself": lambda o: o | o,
    "merged behind": lambda o: {"z": 1} | o,
    "copied": lambda o: o.copy(),
    "a literal": lambda o: {**o},
    "a call": lambda o: passed(**o),
    "dict": lambda o: dict(o),
    "a call of dict": lambda o: dict(**o),
}
MISTAKEN = {
    "a method of nothing": lambda o: types.MethodType(None, 3),
    "a method on nothing": lambda o: types.MethodType(len, None),
    "vars of two": lambda o: vars(o, 3),
}


@pytest.mark.parametrize("o", [Shown(a=1), Pairs([("k", 2)]), {"k": 1}, [("k", 2)]], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("name", ASKED | MISTAKEN)
@pytest.mark.parametrize("caught", [True, False])
def test_of_mappings_and_pairs(name, caught, o):
    ask = (ASKED | MISTAKEN)[name]

    def f(x, o):
        y = x * 2
        try:
            return y, ask(o)
        except (TypeError, ValueError, AttributeError) if caught else ZeroDivisionError as error:
            return y, type(error).__name__

    assert outcome(capture.optimize("eager")(f), o) == outcome(f, o)


def outcome(function, o):
    try:
        return repr(function(torch.ones(1), o))
    except (TypeError, ValueError, AttributeError) as error:
        return type(error).__name__
