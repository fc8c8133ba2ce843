"""Operators and functions of Python's on objects of all kinds, between plain ones: what CPython says, in its words.

A TypeError that the program catches is as good an answer as any other.
"""

import collections
import functools
import heapq
import itertools
import math
import operator
import random
import re

import pytest
import torch

import capture

kinds = pytest.importorskip("kinds_of_operands", reason="numbers of numpy's are among them")

SHARE = 0.03
"""Of all pairs, drawn anew in each run."""


def function_of(statement):
    text = f"""
def function(x, a, b):
    try:
        {statement}
        r = list(r) if hasattr(r, "__next__") else r
    except Exception as error:
        r = f"{{type(error).__name__}}: {{error}}"
    return x + 1, r
"""
    names = {module.__name__: module for module in (collections, functools, heapq, itertools, math, operator, torch)}
    space = {"__name__": __name__, **names}
    exec(compile(text, __file__, "exec"), space)
    return space["function"]


def shown(value):
    if isinstance(value, (tuple, list)):
        return type(value).__name__, *map(shown, value)
    return type(value).__name__, re.sub("0x[0-9a-f]+", "", repr(value))


def outcome(run, a, b=lambda: None):
    a, b = a(), b()
    try:
        result = run(torch.ones(2), a, b)[1]
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is an answer
        result = "raised", type(error).__name__, str(error)
    return shown(result), shown(a)


def captured(function):
    return capture.optimize("eager", options=capture.Options(leave_idle=False))(function)


def compare(statement, a, b=lambda: None):
    function = function_of(statement)
    region, expected = captured(function), outcome(function, a, b)
    assert [outcome(region, a, b) for _ in range(2)] == [expected, expected], statement


def statement_of(symbol):
    in_place = symbol.endswith("=") and symbol not in ("==", "!=", "<=", ">=")
    return f"a {symbol} b; r = a" if in_place else f"r = a {symbol} b"


@pytest.mark.without_graphs("where the first operand is refused there is nothing to capture", cases="some")
@pytest.mark.parametrize("symbol", kinds.OPERATORS)
def test_operators(symbol):
    everything = {**kinds.OBJECTS, **kinds.PLAIN}
    pairs = list(itertools.product(everything.items(), repeat=2))
    for (left, a), (right, b) in random.sample(pairs, int(SHARE * len(pairs))):
        print(left, symbol, right)
        compare(statement_of(symbol), a, b)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.without_graphs("where the first operand is refused there is nothing to capture", cases="some")
@pytest.mark.parametrize("call", kinds.CALLS)
def test_functions(call):
    everything = {**kinds.OBJECTS, **kinds.PLAIN}
    for name, a in random.sample(sorted(everything.items()), 12):
        print(name)
        compare(f"r = {call}", a)


MEASURED = {
    "a comparison in a loop": lambda x, v, o: [n for n in v if n == o],
    "another way round": lambda x, v, o: [n for n in v if o != n],
    "a key": lambda x, v, o: ({2: "two"}.get(o), o in {2: 1}, {o: 1}.get(2), len({o, 2})),
    "a default": lambda x, v, o: heapq.nlargest(1, v, key=None),
    "a text": lambda x, v, o: f"{o}" + "%s" % o,  # noqa: UP031
}


@pytest.mark.parametrize("kind", ["int64", "float32", "own int", "decimal", "fraction", "enum"])
@pytest.mark.parametrize("name", MEASURED)
def test_numbers_that_are_no_ints_are_compared_as_what_they_are(name, kind):
    def function(x, values, other):
        return x + 1, MEASURED[name](x, values, other)

    region, other = captured(function), kinds.OBJECTS[kind]()
    for values in ([1, 2, 3, 2, 5, 2, 7], [2, 4, 2], [3, 2, 2, 2]):
        assert region(torch.ones(2), values, other)[1] == function(torch.ones(2), values, other)[1]


def test_a_loop_until_a_number_of_numpys_ends():
    def function(x, i, stop):
        while i != stop:
            x, i = x + 1, i + 1
        return x

    region = captured(function)
    for stop in (3, 5, 4):
        stop = kinds.np.int64(stop)
        assert torch.equal(region(torch.ones(1), 0, stop), torch.ones(1) + float(stop))


def test_a_deque_is_no_list_of_sizes():
    def function(x, sizes):
        return (x + 1).view(sizes)

    for run in (function, captured(function)):
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            run(torch.ones(2), collections.deque([1, 2]))


@pytest.mark.parametrize("kind", ["own list", "list", "tuple", "text"])
@pytest.mark.parametrize("number", ["enum", "own int"])
def test_a_sequence_is_no_operand_of_a_product_in_place_with_a_class_of_python(number, kind):
    everything = {**kinds.OBJECTS, **kinds.PLAIN}
    compare("a *= b; r = a", everything[number], everything[kind])
