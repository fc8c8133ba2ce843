"""Unpacking takes what CPython takes of an iterator, and no more: what is left in it, and what its code did."""

import collections
import itertools
import random

import pytest
import torch
from what_is_seen import differing, outcome

LOG = []


class Counting:
    """Iterates by code of its own, and may fail."""

    def __init__(self, count, fails_at=99):
        self.at, self.count, self.fails_at = 0, count, fails_at

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        LOG.append(self.at)
        if self.at == self.fails_at:
            raise KeyError(self.at)
        if self.at > self.count:
            raise StopIteration
        return self.at


class Indexed:
    def __getitem__(self, index):
        LOG.append(index)
        if index > 3:
            raise IndexError
        return index


def counted(n):
    for i in range(n):
        LOG.append(i)
        yield i
    LOG.append("end")


SOURCES = {
    "generator": lambda n: counted(n),
    "counting": lambda n: Counting(n),
    "failing": lambda n: Counting(n, 2),
    "failing late": lambda n: Counting(n, 3),
    "indexed": lambda n: Indexed(),
    "range": range,
    "list": lambda n: [*range(n)],
    "iterator": lambda n: iter([*range(n)]),
    "tuple": lambda n: tuple(range(n)),
    "text": lambda n: "abcdef"[:n],
    "map": lambda n: map(str, counted(n)),
    "zip": lambda n: zip(counted(n), counted(n), strict=False),
    "enumerate": lambda n: enumerate(counted(n)),
    "chain": lambda n: itertools.chain(counted(n), [7]),
    "islice": lambda n: itertools.islice(itertools.count(), n),
    "dict": lambda n: dict.fromkeys(range(n)),
    "items": lambda n: dict.fromkeys(range(n)).items(),
    "deque": lambda n: collections.deque(range(n)),
    "expression": lambda n: (i for i in counted(n)),
    "reversed": lambda n: reversed([*range(n)]),
    "number": lambda n: n,
}
ENDLESS = {
    "count": lambda n: itertools.count(n),
    "cycle of a generator": lambda n: (i for i in itertools.count(n)),
    "repeat": lambda n: itertools.repeat(n),
}
TARGETS = ("a, b", "a, b, c", "(a,)", "[a, b]", "a, *b", "*a, b", "a, *b, c", "*a,", "a, (b, c)", "(a, b), c")
FORMS = {
    "statement": "TARGETS = it",
    "caught": "try: TARGETS = it\n    except (ValueError, TypeError, KeyError) as e: LOG.append(str(e))",
    "in a for": "for TARGETS in [it]: pass",
    "in a comprehension": "[1 for TARGETS in [it]]",
}


def program(targets, form, made_inside):
    made = "it = make(n)" if made_inside else "it = given"
    return f"def f(x, n, given):\n    x = x * 2\n    {made}\n    {FORMS[form].replace('TARGETS', targets)}\n    {REST}"


REST = "return x, [*it] if hasattr(type(it), '__next__') else it"


@pytest.mark.without_graphs("of iterators from outside CPython takes the items", cases="some")
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
@pytest.mark.parametrize("source", [*SOURCES, *ENDLESS])
def test_unpacking_takes_what_cpython_takes(source):
    make, endless = {**SOURCES, **ENDLESS}[source], source in ENDLESS

    def calls(compiled, case):
        scope = {"make": make, "LOG": LOG}
        text = program(*case)
        exec(text.replace(REST, "return x, next(it)") if endless else text, scope)
        function, found = compiled(scope["f"]), []
        for n in (2, 2, 3, 5, 1, 0, 2):
            LOG.clear()
            given = make(n)
            result = outcome(function, torch.ones(1), n, given)
            rest = (
                outcome(lambda given=given: [*itertools.islice(given, 3)]) if hasattr(type(given), "__next__") else None
            )
            found.append((result, [*LOG], rest))
        return found

    every = [
        case
        for case in itertools.product(TARGETS, FORMS, (True, False))
        if not endless or (case[0] in TARGETS[:4] and case[1] == "caught")
    ]
    chosen = every if len(every) < 12 else random.sample(every, 12)
    assert differing([(case, case) for case in chosen], calls) == []
