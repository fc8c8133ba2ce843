"""Which object it is: as a key, in a comparison, on two paths at once; a later call may bring another one."""

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
