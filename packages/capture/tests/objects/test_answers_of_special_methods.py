"""What a special method returns counts by its truth, wherever it comes from: a variable of a closure, a default."""

import operator

import pytest
import torch

import capture

ASKS = {
    "__contains__": lambda o: 5 in o,
    "__eq__": lambda o: ([o].count(5), (o,) == (5,), {"k": o} == {"k": 5}, 5 in [o], 5 in {"k": o}.values()),
    "__ne__": lambda o: 1 if o != 5 else 2,
    "__lt__": lambda o: (1 if o < 5 else 2, min(5, o) is o),
    "__bool__": lambda o: 1 if o else 2,
}


def held(name, answer):
    return type("Held", (), {name: lambda self, *operands: answer})()


def by_default(name, answer):
    return type("ByDefault", (), {name: lambda self, operand=None, answer=answer: answer})()


@pytest.mark.parametrize("answer", [False, True, None, 0, 3, "", "a", [], [0]], ids=repr)
@pytest.mark.parametrize("made", [held, by_default])
@pytest.mark.parametrize("name", ASKS)
def test_answers_count_by_their_truth(name, made, answer):
    def f(x, o):
        return x + 1, ASKS[name](o)

    outcomes = []
    for call in (f, capture.optimize("eager")(f)):
        try:
            outcomes.append(call(torch.ones(1), made(name, answer))[1])
        except (TypeError, ValueError) as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("function", [operator.eq, operator.lt, operator.add, operator.iadd, operator.matmul])
@pytest.mark.parametrize("made", [held, by_default])
def test_not_implemented_lets_the_next_one_try(function, made):
    o = made(f"__{function.__name__}__", NotImplemented)

    def f(x, o):
        x = x + 1
        try:
            return x, function(o, 5)
        except TypeError as error:
            return x, str(error)

    assert capture.optimize("eager")(f)(torch.ones(1), o)[1] == f(torch.ones(1), o)[1]
