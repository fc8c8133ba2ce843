"""What Python asks of values of every kind, and how it refuses, where the program catches the error: as in CPython.

Some questions are drawn for each kind in each run.
"""

import collections
import enum
import fractions
import functools
import itertools
import math
import operator
import random
import types

import pytest
import torch

import capture


class Shade(enum.Enum):
    DARK = 1
    LIGHT = 2


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Counted(type):
    __len__ = __int__ = __index__ = __hash__ = lambda cls: 3
    __iter__ = lambda cls: iter([1, 2])
    __contains__ = lambda cls, item: item == 1
    __getitem__ = lambda cls, at: at
    __neg__ = lambda cls: 8
    __add__ = lambda cls, other: 7


class OfCounted(metaclass=Counted):
    pass


class Plain:
    pass


KINDS = {
    "a class of members": lambda: Shade,
    "a member": lambda: Shade.DARK,
    "a flag": lambda: Rights.READ,
    "flags": lambda: Rights.READ | Rights.WRITE,
    "a class of flags": lambda: Rights,
    "a class with a metaclass": lambda: OfCounted,
    "a class": lambda: Plain,
    "an object": Plain,
    "a module": lambda: math,
    "a function": lambda: unpacked,
    "a builtin": lambda: len,
    "None": lambda: None,
    "an ellipsis": lambda: ...,
    "a refusal": lambda: NotImplemented,
    "a number": lambda: 3,
    "below zero": lambda: -2,
    "a float": lambda: 2.5,
    "not a number": lambda: math.nan,
    "a complex": lambda: 1j,
    "a text": lambda: "ab",
    "bytes": lambda: b"ab",
    "a tuple": lambda: (1, 2),
    "a list": lambda: [3, 1],
    "a dict": lambda: {"a": 1},
    "a set": lambda: {1},
    "a frozenset": lambda: frozenset({1}),
    "a range": lambda: range(3),
    "a slice": lambda: slice(1),
    "an iterator": lambda: iter([1, 2]),
    "a proxy": lambda: types.MappingProxyType({"a": 1}),
    "a size": lambda: torch.Size([1, 2]),
    "a dtype": lambda: torch.float32,
    "a device": lambda: torch.device("cpu"),
    "a number of a tensor": lambda: torch.tensor(2),
    "a tensor": lambda: torch.tensor([1, 2]),
    "a partial": lambda: functools.partial(int, "3"),
    "a module of torch's": torch.nn.Identity,
    "modules": lambda: torch.nn.ModuleList([torch.nn.Identity()]),
    "a deque": lambda: collections.deque([1, 2]),
    "counts": lambda: collections.Counter("aab"),
    "a fraction": lambda: fractions.Fraction(1, 2),
    "a namespace": lambda: types.SimpleNamespace(a=1),
    "a union": lambda: int | str,
    "an alias": lambda: list[int],
    "an error": lambda: ValueError("v"),
    "a class of errors": lambda: ValueError,
    "keys": lambda: {"a": 1}.keys(),
}


def unpacked(o):
    one, other = o
    return one, other


def raised(o):
    raise o


def attempted(o, ask):
    with o as given:
        return ask, given


QUESTIONS = {
    "len": lambda o: len(o),
    "list": lambda o: list(o),
    "dict": lambda o: dict(o),
    "next": lambda o: next(o),
    "reversed": lambda o: list(reversed(o)),
    "in": lambda o: 1 in o,
    "an item": lambda o: o[0],
    "a key": lambda o: o["a"],
    "a part": lambda o: o[0:1],
    "assigned": lambda o: operator.setitem(o, 0, 1),
    "deleted": lambda o: operator.delitem(o, 0),
    "hash": lambda o: type(hash(o)),
    "abs": lambda o: abs(o),
    "neg": lambda o: -o,
    "not": lambda o: not o,
    "add": lambda o: o + 1,
    "added": lambda o: 1 + o,
    "doubled": lambda o: o * 2,
    "mod": lambda o: o % 2,
    "or": lambda o: o | 1,
    "less": lambda o: o < 1,
    "equal": lambda o: o == 1,
    "int": lambda o: int(o),
    "float": lambda o: float(o),
    "index": lambda o: [1, 2, 3, 4][o],
    "range": lambda o: list(range(o)),
    "round": lambda o: round(o),
    "trunc": lambda o: math.trunc(o),
    "sqrt": lambda o: math.sqrt(o),
    "sum": lambda o: sum(o),
    "max": lambda o: max(o),
    "sorted": lambda o: sorted(o),
    "any": lambda o: any(o),
    "zip": lambda o: list(zip(o, [1])),
    "map": lambda o: list(map(str, o)),
    "count": lambda o: next(itertools.count(o)),
    "steps": lambda o: next(itertools.count(1, o)),
    "islice": lambda o: list(itertools.islice([1, 2], o)),
    "product": lambda o: list(itertools.product([1], repeat=o)),
    "reduce": lambda o: functools.reduce(operator.add, o),
    "unpacked": unpacked,
    "starred": lambda o: [*o],
    "merged": lambda o: {**o},
    "with": lambda o: attempted(o, 1),
    "isinstance": lambda o: isinstance(1, o),
    "issubclass": lambda o: issubclass(o, int),
    "getattr": lambda o: getattr(Plain, o, 3),
    "setattr": lambda o: setattr(Plain(), o, 1),
    "delattr": lambda o: delattr(o, "zz"),
    "an attribute": lambda o: o.zz,
    "a name": lambda o: o.__name__,
    "join": lambda o: ",".join(o),
    "split": lambda o: "aab".split(o),
    "extended": lambda o: [1].extend(o),
    "popped": lambda o: [1, 2, 3, 4].pop(o),
    "raised": raised,
    "callable": lambda o: callable(o),
    "format": lambda o: f"{o:d}",
    "pairs": lambda o: {k: [v] for k, v in o},
    "vars": lambda o: sorted(vars(o))[:2],
}


def outcome(function, *given):
    try:
        return repr(function(*given))
    except Exception as error:  # noqa: BLE001 - it is compared
        return type(error).__name__, str(error)


def caught(x, o, ask):
    y = x + 1
    try:
        answer = ask(o)
    except Exception as error:  # noqa: BLE001 - it is compared
        answer = type(error).__name__, str(error)
    return y, answer


@pytest.mark.without_graphs(
    "its metaclass says how it is compared: CPython runs what looks at it", cases=["a class with a metaclass"]
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_refusals_are_pythons(kind):
    seed = random.randrange(1 << 30)
    for name in random.Random(seed).sample(sorted(QUESTIONS), 20):
        ask = QUESTIONS[name]
        given = [torch.ones(1), KINDS[kind](), ask], [torch.ones(1), KINDS[kind](), ask]
        compiled = capture.optimize("eager")(lambda *given: caught(*given))
        assert outcome(compiled, *given[0]) == outcome(caught, *given[1]), (name, seed)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("a class of members", "len"),
        ("a class of members", "raised"),
        ("a flag", "list"),
        ("an alias", "a name"),
        ("a text", "count"),
        ("below zero", "product"),
        ("None", "reduce"),
        ("a number", "join"),
        ("a dtype", "getattr"),
        ("an object", "deleted"),
    ],
)
def test_what_was_refused_or_answered_otherwise(kind, name):
    ask = QUESTIONS[name]
    compiled = capture.optimize("eager")(lambda x, o: caught(x, o, ask))
    assert outcome(compiled, torch.ones(1), KINDS[kind]()) == outcome(caught, torch.ones(1), KINDS[kind](), ask)
