"""Every method of every kind of constant, three times: what one call makes and uses up, or writes to, is its own."""

import enum
import itertools
import operator
import os
import random
import re
from typing import NamedTuple

import pytest
import torch
from what_is_seen import differing, outcome

import capture


class P(NamedTuple):
    a: object
    b: object


class Lists(enum.Enum):
    ONE = [1, 2]
    TWO = {"k": [1]}
    THREE = ([1],)


class Number(enum.IntEnum):
    THREE = 3


PATTERN = re.compile(r"(?P<d>\d)([a-z])?")
CONSTANTS = {
    "text": "a1b2",
    "empty text": "",
    "bytes": b"a1b2",
    "int": 5,
    "bool": True,
    "float": 2.5,
    "complex": 1 + 2j,
    "None": None,
    "ellipsis": ...,
    "range": range(4),
    "frozenset": frozenset({1}),
    "frozenset of tuples": frozenset({(1, 2)}),
    "tuple": (1, "a"),
    "named tuple": P(1, "b"),
    "size": torch.Size([2, 3]),
    "slice": slice(1, 5, 2),
    "dtype": torch.float32,
    "device": torch.device("cpu"),
    "pattern": PATTERN,
    "pattern of bytes": re.compile(rb"\d"),
    "match": PATTERN.search("a1b2"),
    "list in an enum": Lists.ONE,
    "dict in an enum": Lists.TWO,
    "number in an enum": Number.THREE,
    "finfo": torch.finfo(torch.float32),
    "class": P,
}
OPERANDS = (
    *((), (1,), ("a",), ("1", "b"), (b"1",), (2.5,), (frozenset({1, 2}),), (range(3),), ((1, 2),), (None,)),
    *((["a", "b"],), ("a1b2",), ("a1b2", 1, 3), (1, 2), ("x", "a1b2"), ({97: "c"},), ({"a1b2": 1},), (slice(0, 2),)),
    *((torch.float32,), (Number.THREE,), (b"a1b2",), ("utf-8",), (2, "little")),
)
LEFT_OUT = {
    *("__init__", "__class__", "__new__", "__init_subclass__", "__subclasshook__", "__setattr__", "__delattr__"),
    *(
        "__sizeof__",
        "__dir__",
        "__instancecheck__",
        "__subclasscheck__",
        "__subclasses__",
        "mro",
        "__prepare__",
        "_make",
    ),
}


def used_up(made):
    """What is left of a result once it was gone through, or written to."""
    if hasattr(type(made), "__next__"):
        return [next(made, None), list(made), list(made)]
    if type(made) is list:
        made.append(7)
    elif type(made) is dict:
        made["new"] = 7
    return made


def methods(constant):
    """The names of methods with operands that they take, one refused call of each besides."""
    for name in dir(type(constant)) if not isinstance(constant, type) else ("__dict__", "__mro__", "_fields"):
        method = None if name in LEFT_OUT else getattr(constant, name, None)
        if not callable(method):
            continue
        refused = 0
        for operands in OPERANDS:
            try:
                method(*operands)
            except Exception:  # noqa: BLE001  whatever it refuses with
                refused += 1
                if refused > 1:
                    continue
            yield f"{name}{operands}", (name, operands)


def bound(name):
    return eval(f"lambda x, o, use, args: (x + 1, use(o.{name}(*args)))")


def unbound(name):
    return eval(f"lambda x, o, use, args: (x + 1, use(type(o).{name}(o, *args)))")


def escaping(name):
    return eval(f"lambda x, o, use, args: (x + 1, o.{name}(*args))")


def half_way(name):
    return eval(f"lambda x, o, use, args: (x + 1, [made := o.{name}(*args), next(made, None)][0])")


WAYS = {"bound": bound, "unbound": unbound, "escaping": escaping, "half way": half_way}


@pytest.mark.without_graphs("what has a state, and what is refused in words of C, is CPython's", cases="some")
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", CONSTANTS)
def test_methods_of_constants(kind, way):
    """Some of all calls, drawn anew in each run; all of them with ``SWEEPS=all``."""
    constant = CONSTANTS[kind]
    if kind == "class" and way == "unbound":
        return

    def calls(compiled, case):
        name, operands = case
        function = compiled(WAYS[way](name))
        found = []
        for _ in range(3):
            try:
                result = function(torch.ones(1), constant, used_up, operands)
            except Exception as error:  # noqa: BLE001
                found.append(outcome(lambda error=error: error))
            else:
                found.append(outcome(lambda result=result: (result[0], used_up(result[1]))))
        return found

    cases = [
        case
        for case in methods(constant)
        if way != "half way" or hasattr(type(made_by(constant, *case[1])), "__next__")
    ]
    if os.environ.get("SWEEPS") != "all":
        cases = random.sample(cases, min(len(cases), 8))
    assert differing(cases, calls) == []


def made_by(constant, name, operands):
    try:
        return getattr(constant, name)(*operands)
    except Exception:  # noqa: BLE001
        return None


FUNCTIONS = {
    "finditer": lambda s: re.finditer(r"\d", s),
    "finditer of a pattern": lambda s: PATTERN.finditer(s),
    "finditer within": lambda s: PATTERN.finditer(s, 1, endpos=3),
    "scanner": lambda s: iter(PATTERN.scanner(s).search, None),
    "groups": lambda s: iter([m.groupdict() for m in PATTERN.finditer(s)]),
    "split": lambda s: iter(re.split(r"\d", s)),
    "sub by a function": lambda s: iter([re.sub(r"\d", lambda m: m[0] * 2, s)]),
    "tokens": lambda s: iter(PATTERN.findall(s)),
    "iter": lambda s: s.__iter__(),
    "range": lambda s: range(len(s)).__iter__(),
    "range, reversed": lambda s: range(len(s)).__reversed__(),
    "frozenset": lambda s: frozenset({s}).__iter__(),
    "bytes": lambda s: s.encode().__iter__(),
    "tuple": lambda s: (s, s).__iter__(),
    "map": lambda s: map(str.upper, s.__iter__()),
    "getter": lambda s: map(operator.itemgetter(0), PATTERN.finditer(s)),
    "chained": lambda s: itertools.chain(PATTERN.finditer(s), PATTERN.finditer(s)),
}
USES = {
    "all": "sum(1 for m in it)",
    "twice": "(len(list(it)), len(list(it)))",
    "first": "(next(it, None) is None, len(list(it)))",
    "in parts": "(next(it, None) is None, x.sum().item(), len(list(it)))",
    "type": "type(it).__name__",
    "itself": "it",
    "itself, further": "(next(it, None) is None, it)",
    "gone": "(len(list(it)), it)",
    "with a break": "(next(it, None) is None, capture.graph_break(), len(list(it)))",
}


@pytest.mark.parametrize("use", USES)
def test_iterators_of_constants_are_made_in_each_call(use):
    def calls(compiled, make):
        scope = {"make": make, "capture": capture}
        exec(f"def f(x, s):\n    x = x * 2\n    it = make(s)\n    return x, {USES[use]}", scope)
        function, found = compiled(scope["f"]), []
        for text in ("a1b2", "a1b2", "333", "a1b2"):
            result = function(torch.ones(1), text)
            last = result[1][-1] if type(result[1]) is tuple else result[1]
            rest = [str(item) for item in last] if hasattr(type(last), "__next__") else last
            found.append((result[0].tolist(), rest, type(last).__name__))
        return found

    assert differing(FUNCTIONS.items(), calls) == []


def write_to_value(x):
    Lists.ONE.value.append(3)
    return x + len(Lists.ONE.value), Lists.ONE.value is Lists.ONE._value_


def test_the_value_of_a_member_is_the_object_that_it_is():
    before = list(Lists.ONE.value)
    compiled = capture.optimize("eager")(write_to_value)
    try:
        assert [compiled(torch.zeros(1))[0].item() for _ in range(3)] == [3.0, 4.0, 5.0]
        assert compiled(torch.zeros(1))[1]
    finally:
        Lists.ONE.value[:] = before
