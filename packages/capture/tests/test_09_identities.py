"""Which object it is: as a key, in a comparison, on two paths at once; a later call may bring another one."""

import enum
import warnings
from types import SimpleNamespace

import pytest
import torch

import capture


class Thing:
    def __init__(self, number=0):
        self.number = number


FIRST, SECOND = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
ONE, OTHER = Thing(), Thing()
NUMBERS = {FIRST: 3, SECOND: 4, ONE: 5, OTHER: 6, (FIRST, 1): 7, (ONE, 1): 8}
ITEMS = [1, 2]

QUESTIONS = {
    "key of a dict": lambda p, q: NUMBERS.get(p, 0) * 10 + NUMBERS.get(q, 0),
    "part of a key": lambda p, q: NUMBERS.get((p, 1), 0) * 10 + ((q, 1) in NUMBERS),
    "among keys": lambda p, q: len([key for key in NUMBERS if key is p or key is q]),
    "key made here": lambda p, q: {FIRST: 1, ONE: 2, q: 3}.get(p, 4),
    "item of a set": lambda p, q: len({p, q, ONE, FIRST}),
    "item of a list": lambda p, q: (p in [FIRST, ONE]) + 2 * [p, q, FIRST, ONE].index(q),
    "is": lambda p, q: (p is FIRST) + 2 * (q is ONE) + 4 * (p is q),
    "equal": lambda p, q: (p == FIRST) + 2 * (q != ONE) + 4 * ((p, q) == (q, p)),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_about_arguments(x, name):
    question = QUESTIONS[name]
    captured = capture.optimize("eager", options=capture.Options(strict=True, recompile_limit=99))(
        lambda p, q, a: a * question(p, q)
    )
    linear, thing = torch.nn.Linear(3, 3), Thing()
    for things in ((FIRST, SECOND, linear), (ONE, OTHER, thing)):
        for p, q in [(p, q) for p in things for q in things] * 2:
            assert torch.equal(captured(p, q, x), x * question(p, q))


def test_a_parameter_as_a_key(x):
    known = {torch.nn.Parameter(x): 1, torch.nn.Parameter(x): 2}
    captured = capture.optimize("eager", strict=True)(lambda p: p * known.get(p, 0))
    for p in [*known, torch.nn.Parameter(x), *known]:
        assert torch.equal(captured(p), p * known.get(p, 0))


def test_an_argument_that_is_what_a_closure_holds(x):
    def grow(items, thing, a):
        items.append(1)
        thing.number += 1
        return a * len(ITEMS) * ONE.number

    captured, plain = capture.optimize("eager", strict=True, recompile_limit=99)(grow), []
    for items, thing in [([], Thing()), (ITEMS, ONE), ([], Thing()), ([], ONE), (ITEMS, Thing())] * 2:
        before = len(ITEMS) + (items is ITEMS), ONE.number + (thing is ONE)
        plain.append(x * before[0] * before[1])
        assert torch.equal(captured(items, thing, x), plain[-1])


def test_the_first_of_two_tied_parameters_is_replaced(x):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    captured = capture.optimize("eager", strict=True)(model)
    captured(x)
    model[0].weight = torch.nn.Parameter(torch.zeros(3, 3))
    assert torch.equal(captured(x), model(x))


# -- numbers and texts: equal ones may be one object or two ---------------------------------------------------------

EQUAL_OBJECTS = {
    "float": lambda: float("1000.5"),
    "nan": lambda: float("nan"),
    "complex nan": lambda: complex(float("nan"), 1),
    "int": lambda: int("1000"),
    "text": lambda: "".join(["te", "xt"]),
    "bytes": lambda: bytes([1, 2, 3]),
    "tuple": lambda: (int("1000"), 2),
    "tuple of nan": lambda: (float("nan"),),
    "frozenset": lambda: frozenset([1000]),
    "range": lambda: range(5),
    "device": lambda: torch.device("cpu", 0),
    "enum member": lambda: Colour.RED,
    "small number": lambda: int("7"),
    "letter": lambda: "text"[0],
    "empty tuple": lambda: tuple(""),
}


class Colour(enum.Enum):
    RED = 1


_P = _Q = None


def asked(p, q):
    found = (p is q) + 2 * (p is not q) + 4 * (p in [1, q]) + 8 * [q, p].count(p) + 16 * ((p, 1) == (q, 1))
    return found + 32 * ([p] == [q]) + 64 * (q in (p, None)) + 128 * ({"k": p} == {"k": q}) + 256 * ([p, 3].index(p))


HOLDERS = {
    "arguments": lambda x, p, q: x * asked(p, q),
    "attributes": lambda x, thing, _: x * asked(thing.p, thing.q),
    "items": lambda x, items, _: x * asked(items[0], items[1]),
    "entries": lambda x, items, _: x * asked(items["p"], items["q"]),
    "globals": lambda x, p, q: x * asked(_P, _Q),
    "what is met twice": lambda x, p, items: x * asked(p, items[1]),
}
BROUGHT = {
    "attributes": lambda p, q: (SimpleNamespace(p=p, q=q), None),
    "items": lambda p, q: ([p, q], None),
    "entries": lambda p, q: ({"p": p, "q": q}, None),
    "what is met twice": lambda p, q: (p, [1, q]),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", EQUAL_OBJECTS)
def test_equal_objects_that_are_one_or_two(x, kind, holder):
    global _P, _Q
    captured = capture.optimize("eager", strict=True, recompile_limit=99)(HOLDERS[holder])
    first, second = EQUAL_OBJECTS[kind](), EQUAL_OBJECTS[kind]()
    for p, q in [(first, first), (first, second), (first, first), (second, first), (second, second)]:
        _P, _Q = p, q
        given = BROUGHT.get(holder, lambda *both: both)(p, q)
        assert torch.equal(captured(x, *given), HOLDERS[holder](x, *given))


def literal(text):
    """A function that asks `is` of a literal, of which Python warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return eval(text, {"Colour": Colour, "torch": torch})


@pytest.mark.parametrize("kind", ["1000.5", "1000", "'text'", "b'123'"])
def test_a_constant_of_the_code(x, kind):
    f = literal(f"lambda a, p: a * ((p is {kind}) + 2 * (p is not {kind}) + 4 * (p == {kind}))")
    (constant,) = (held for held in f.__code__.co_consts if held == eval(kind))
    captured = capture.optimize("eager", strict=True)(f)
    for p in (constant, eval(f"type({kind})({kind})"), constant, type(constant)(3)):
        assert torch.equal(captured(x, p), f(x, p))


def test_a_cell_that_holds_another_number(x):
    number = 1000.5
    f = lambda a, p: a * ((p is number) + 2)
    captured, other = capture.optimize("eager", strict=True)(f), float("1000.5")
    for number in (number, other, number):
        assert torch.equal(captured(x, other), f(x, other))


def test_common_questions_cost_no_guard(x):
    f = literal(
        "lambda a, mode, flag, n, colour: a if mode is None or flag is not True or n is 3 or colour is not Colour.RED"
        " or mode in ('a', 'b') else a + (a.dtype is torch.float32)"
    )
    log = capture.Log()
    capture.optimize("eager", strict=True, log=log)(f)(x, "train", True, 4, Colour.RED)
    (graph,) = (record for record in log.records() if isinstance(record, capture.GraphRecord))
    assert not [guard for guard in graph.guards if " is not " in guard or "different" in guard or "mode is" in guard]


def test_numbers_that_vary_may_be_one_object(x):
    f = literal("lambda a, n, m: a * ((n is m) + 2 * (n is 5))")
    captured = capture.optimize("eager", strict=True)(f)
    large, equal = 1000, int("1000")
    for n, m in [(2, 3), (4, 6), (8, 8), (5, 7), (large, large), (large, equal), (9, 8)]:
        assert torch.equal(captured(x, n, m), f(x, n, m))


def test_which_truth_of_a_tensor_it_is(x):
    captured = capture.optimize("eager", strict=True)(lambda a: a + 1 if (a > 3).all().item() is True else a - 1)
    for given in (x, x + 4, x):
        assert torch.equal(captured(given), given + 1 if (given > 3).all() else given - 1)


def test_nan_as_a_key(x):
    known = float("nan")
    captured = capture.optimize("eager", strict=True)(lambda a, n: a * ((n in {known: 1}) + 2 * len({n, known})))
    for n in (known, float("nan"), known):
        assert torch.equal(captured(x, n), x * ((n is known) + 2 * len({n, known})))
