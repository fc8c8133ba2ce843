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


VARYING = {"int": (2, 3, 5, 0, -1, 70), "float": (0.5, 1.5, 2.0, 0.0, -1.25), "bool": (True, False)}
DTYPES = (torch.float32, torch.int64, torch.bool)
OF_TENSORS = [
    *(f"a {symbol} b" for symbol in (*kinds.OPERATORS,) if not symbol.endswith("=") or symbol in ("==", "!=")),
    *(f"operator.i{name}(a, b)" for name in ("add", "floordiv", "mod", "pow", "lshift", "and", "matmul")),
    *("divmod(a, b)", "pow(a, b)", "pow(a, b, 3)", "pow(a, 2, b)", "pow(2, a, b)", "round(a, b)", "complex(a, b)"),
    *(f"{name}(a * b)" for name in ("abs", "round", "math.trunc", "math.floor", "math.ceil", "operator.index")),
    *(f"{name}((a + b).sum())" for name in ("int", "float", "complex", "bool", "range", "math.sqrt", "~")),
]


def of_a_tensor(function, dtype, number, turned):
    x = torch.tensor([1, -2, 3]).to(dtype)
    try:
        result = function(x, *((number, x) if turned else (x, number)))[1]
    except Exception as error:  # noqa: BLE001 - the same one, in the same words
        return type(error), str(error)
    return [(each.dtype, repr(each)) if isinstance(each, torch.Tensor) else shown(each) for each in (result, *[x])]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.without_graphs("where the first operand is refused there is nothing to capture", cases="some")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("expression", OF_TENSORS)
def test_a_tensor_and_a_number_that_varies(expression, turned):
    function = function_of(f"r = {expression}")
    for dtype, numbers in itertools.product(DTYPES, VARYING.values()):
        region = captured(function)
        for number in numbers:
            print(dtype, number)
            given = dtype, number, turned
            assert of_a_tensor(region, *given) == of_a_tensor(function, *given)


class DividesWithRest:
    def __divmod__(self, other):
        return "divmod", other

    def __rdivmod__(self, other):
        return "rdivmod", other

    def __rfloordiv__(self, other):
        return "another operator"

    __rmod__ = __mod__ = __floordiv__ = __rfloordiv__


@pytest.mark.without_graphs("which method is asked is left to CPython", cases="some")
def test_an_object_and_a_number_of_a_tensor_have_a_divmod_of_their_own():
    def function(x, own):
        n = x.sum().item()
        return x + 1, divmod(n, own), divmod(own, n)

    for value in (2.0, 3.0, 0.5):
        assert captured(function)(torch.tensor(value), DividesWithRest())[1:] == (("rdivmod", value), ("divmod", value))
