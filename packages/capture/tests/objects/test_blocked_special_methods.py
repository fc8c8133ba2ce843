"""Special methods that a class blocks by None: what asks for them raises as in CPython, in CPython's words."""

import collections
import enum
import operator

import pytest
import torch

import capture

METHODS = {
    "__bool__": (lambda self: True, "truth branch both any"),
    "__len__": (lambda self: 2, "length truth reversed"),
    "__iter__": (lambda self: iter([1, 3]), "list star in"),
    "__getitem__": (lambda self, at: [1, 3][at], "item list reversed"),
    "__contains__": (lambda self, item: True, "in"),
    "__eq__": (lambda self, other: True, "equal unequal count key"),
    "__ne__": (lambda self, other: True, "unequal"),
    "__lt__": (lambda self, other: True, "less sorted"),
    "__gt__": (lambda self, other: False, "sorted"),
    "__add__": (lambda self, other: 5, "add add_to"),
    "__radd__": (lambda self, other: 6, "added sum"),
    "__iadd__": (lambda self, other: 7, "add_to"),
    "__neg__": (lambda self: 4, "negative"),
    "__int__": (lambda self: 3, "int"),
    "__float__": (lambda self: 3.0, "float"),
    "__index__": (lambda self: 1, "index int float"),
    "__reversed__": (lambda self: iter([3, 1]), "reversed"),
    "__hash__": (lambda self: 1, "key"),
}
"""Special methods, and what asks for them."""
ASKED = {
    "truth": lambda o: bool(o),
    "branch": lambda o: 1 if o else 2,
    "both": lambda o: (o and 1) == 1,
    "any": lambda o: any([o]),
    "length": lambda o: len(o),
    "list": lambda o: list(o),
    "star": lambda o: [*o],
    "in": lambda o: 3 in o,
    "equal": lambda o: o == 1,
    "unequal": lambda o: o != 1,
    "count": lambda o: [1].count(o),
    "less": lambda o: o < 1,
    "sorted": lambda o: sorted([1, o]) == [],
    "add": lambda o: o + 1,
    "added": lambda o: 1 + o,
    "add_to": lambda o: operator.iadd(o, 1),
    "sum": lambda o: sum([1, o]),
    "negative": lambda o: -o,
    "int": lambda o: int(o),
    "float": lambda o: float(o),
    "index": lambda o: [4, 5][o],
    "item": lambda o: o[0],
    "reversed": lambda o: list(reversed(o)),
    "key": lambda o: {1: 2}.get(o),
}
RECORD = collections.namedtuple("RECORD", "a b")


def outcome(function, *given):
    try:
        return repr(function(*given))
    except (TypeError, IndexError) as error:
        return type(error).__name__, str(error)


def holders(name):
    """Objects whose class, or whose metaclass, blocks a method: among all the others, among those that it needs."""
    among = {other: method for other, (method, _) in METHODS.items()}
    yield type("Among", (), {**among, name: None})()
    yield type("Alone", (), {"__hash__": object.__hash__, name: None})()
    yield type("Whole", (int,), {"__hash__": int.__hash__, name: None})(1)
    yield type("Record", (RECORD,), {"__hash__": tuple.__hash__, name: None})(1, 3)
    yield type("Items", (list,), {name: None})([1, 3])
    if name != "__hash__":  # classes are looked up by their hash
        yield type("Meta", (type,), {"__hash__": type.__hash__, name: None})("Made", (), {})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", METHODS)
def test_what_is_blocked_is_not_absent(name):
    for held in holders(name):
        for ask in (ASKED[each] for each in METHODS[name][1].split()):
            compiled = capture.optimize("eager")(lambda x, ask=ask, held=held: (x * 2, ask(held))[1])
            assert outcome(compiled, torch.ones(2)) == outcome(ask, held), type(held).__name__


class Short(type):
    def __len__(cls):
        return cls.length


class OfLength(metaclass=Short):
    length = 3


class OfNone(metaclass=Short):
    length = None


class Shade(enum.IntEnum):
    DARK = 1
    __bool__ = None


class Ignoring:
    __setitem__ = __delitem__ = lambda *given: 3


class Endless:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: (x * 2, 1 if Shade.DARK else 2)[1],
        lambda x: (x * 2, operator.setitem(Ignoring(), 0, 1), operator.delitem(Ignoring(), 0))[1:],
        lambda x: (x * 2, len(Endless(2**70)))[1],
        lambda x: (x * 2, bool(Endless(-1)))[1],
        lambda x: (x * 2, len(OfLength))[1],
        lambda x: (x * 2, len(OfNone))[1],
    ],
    ids=[
        "a member of an enumeration",
        "what assignments answer",
        "a length beyond all",
        "a negative length",
        "a class",
        "a class of none",
    ],
)
def test_answers_that_nobody_may_have(ask):
    assert compared(capture.optimize("eager")(ask)) == compared(ask)


def compared(function):
    try:
        return function(torch.ones(2))
    except (TypeError, ValueError, OverflowError) as error:
        return type(error), str(error)
