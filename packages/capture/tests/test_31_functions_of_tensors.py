"""Functions of Python's own that are given a tensor: builtins, `math`, `operator`, and what syntax stands for.

VALUES_WHOLE=1 runs all of them.
"""

import builtins
import collections
import copy
import enum
import fractions
import functools
import itertools
import math
import operator
import os
import random
import types
from typing import NamedTuple

import pytest
import torch

import capture
from capture import optimize

_UNTOLD = {
    "id",
    "hash",
    "set",
    "frozenset",
    "input",
    "print",
    "exec",
    "eval",
    "compile",
    "open",
    "help",
    "breakpoint",
    "property",
}
_NAMED = {
    f"{module.__name__}.{name}": function
    for module in (builtins, math, operator)
    for name, function in vars(module).items()
    if callable(function) and name[0] not in "_ABCDEFGHIJKLMNOPQRSTUVWXYZ" and name not in {*_UNTOLD, "exit", "quit"}
}
_WRITTEN = {
    "reversed, computed with": lambda x: reversed(x) * 2,
    "copied": copy.copy,
    "copied deep": copy.deepcopy,
    "chain": lambda x: list(itertools.chain(x, x)),
    "pairwise": lambda x: list(itertools.pairwise(x)),
    "accumulate": lambda x: list(itertools.accumulate(x)),
    "reduce": lambda x: functools.reduce(operator.add, x),
    "f-string": lambda x: f"{x} {x:.2f}",
    "put into a text": lambda x: ("%s" % x, b"%r" % x),  # noqa: UP031
    "put into a text with others": lambda x: "%s and %r of %s" % (x, x, [x]),  # noqa: UP031
    "put into a text by name": lambda x: "%(x)s" % {"x": x},  # noqa: UP031
    "star": lambda x: [*x],
    "unpacked": lambda x: (lambda first, *rest: (first, rest))(*x),
    "in": lambda x: 2.0 in x,
    "divmod": lambda x: (divmod(x, 2), divmod(7, x)),
    "power": lambda x: (x**2, 2**x, pow(x, 2, None)),
    "rounded": lambda x: round(x, 1),
    "from one": lambda x: sum(x, start=1),
    "by key": lambda x: (max(x, key=lambda v: -v), min(x, default=5)),
    "together": lambda x: list(zip(x, map(torch.neg, x), strict=True)),
    "enumerated": lambda x: list(enumerate(x, 1)),
    "between": lambda x: 1 < x < 3,
    "bits": lambda x: (~x, x & x, x >> 1, 1 << x),
    "remainders": lambda x: (x // 2, x % 2, 7 % x, 7 // x),
    "an index": lambda x: [10, 20, 30, 40][x],
    "times a list": lambda x: ([1, 2] * x, "ab" * x),
    "a range": lambda x: list(range(x)),
}
FUNCTIONS = {**_NAMED, **_WRITTEN}
CHOSEN = list(FUNCTIONS)
if not os.environ.get("VALUES_WHOLE"):
    CHOSEN = ["builtins.reversed", *_WRITTEN, *random.Random(0).sample(list(_NAMED), 30)]
GIVEN = {
    "numbers": torch.tensor([3.0, 1.0, 2.0]),
    "integers": torch.tensor([3, 1, 2]),
    "rows": torch.arange(6.0).view(2, 3),
    "booleans": torch.tensor([True, False]),
    "nothing": torch.empty(0),
    "a number": torch.tensor(2.5),
    "an integer": torch.tensor(3),
}


def told(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), repr(value.tolist())
    if isinstance(value, (list, tuple)) or hasattr(value, "__next__"):
        return type(value), [told(each) for each in itertools.islice(value, 10)]
    return type(value), repr(value)


def outcome(function, x):
    try:
        return told(function(x.clone()))
    except Exception as error:  # noqa: BLE001 - whatever CPython raises
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHOSEN)
def test_a_tensor_is_what_it_is_to_cpython(name):
    """One that is given, and one that was computed."""
    for given, x in GIVEN.items():
        for run in (lambda function, x: function(x), lambda function, x: function(x.clone())):
            program = functools.partial(run, FUNCTIONS[name])
            assert outcome(optimize("eager")(program), x) == outcome(program, x), given


_OF_TENSORS = [name for name in dir(torch.Tensor) if name.isidentifier() and name[0] != "_" and name not in _UNTOLD]
ASKED = [
    *("__getstate__", "_typed_storage", "const_data_ptr", "data_ptr", "is_shared"),
    *("output_nr", "storage", "storage_type", "untyped_storage"),
]
ASKED = [name for name in ASKED if hasattr(torch.Tensor, name)]
if os.environ.get("VALUES_WHOLE"):
    ASKED += _OF_TENSORS
else:
    ASKED += random.Random(1).sample(_OF_TENSORS, 30)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("error::capture.CaptureWarning")
@pytest.mark.parametrize("name", ASKED)
def test_what_a_tensor_is_asked_for_is_its_own_and_not_that_of_a_fake(name):
    def program(x):
        made = getattr(x + 0, name)
        made = made() if callable(made) else made
        return made != 0 if name.endswith("data_ptr") else made

    x = torch.ones(2, 3)
    torch.manual_seed(0)
    expected = outcome(program, x)
    torch.manual_seed(0)
    assert outcome(optimize("eager")(program), x) == expected


class Second(int):
    """Its ``__index__`` is never called: it is an integer already."""

    def __index__(self):
        return 1


@pytest.mark.parametrize("items", [[1, 2, 3], (4, 5, 6), range(3), "abc"])
def test_an_integer_is_its_own_position(items):
    captured = optimize("eager")(lambda x, place: (x + 1, items[place]))
    assert captured(torch.ones(1), Second(2))[1] == items[2]


class Made:
    pass


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    first: object
    second: object


@capture.allow_in_graph
def doubled(x, operand):
    return x * 2


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, operand):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


_OPERANDS = [
    *(Made, Made(), torch.Tensor, int, len, torch, torch.sin, lambda x: x, torch.nn.Linear(1, 1), torch.Generator()),
    *(Colour.RED, {Colour.RED: 1}, {"kind": int}, {"kind": Colour.RED}, Pair(1, Colour.RED), (int, float), [1, [2]]),
    *(
        complex("inf"),
        complex("nan"),
        1 + 2j,
        float("inf"),
        float("-inf"),
        float("nan"),
        -0.0,
        10**30,
        "quo'te\n",
        b"\0",
    ),
    *(
        torch.float16,
        torch.device("cpu"),
        torch.strided,
        torch.channels_last,
        torch.Size([2]),
        slice(1, None),
        ...,
        None,
    ),
    *(NotImplemented, range(3), frozenset([1]), {1}, torch.finfo(), fractions.Fraction(1, 2), collections.deque([1])),
    *(torch.ops.aten.add.Tensor, torch.ops.aten.add, collections.OrderedDict(a=1), types.SimpleNamespace(a=1)),
]


@pytest.mark.parametrize("function", [doubled, Doubled.apply])
def test_an_operand_that_the_text_of_a_graph_cannot_say(function, x):
    for operand in _OPERANDS:
        result, following = capture.optimize("eager", strict=True)(lambda a, o: (function(a, o), a + 1))(x, operand)
        assert torch.equal(result, x * 2), operand
        assert torch.equal(following, x + 1), operand


@pytest.mark.parametrize("number", [-1j, complex(-0.0, 1), complex(0, -0.0), complex("inf"), complex(1, float("-inf"))])
def test_a_complex_number_keeps_the_signs_of_its_zeros(number, x):
    def program(a):
        return a * number, torch.add(a, a, alpha=number.imag), torch.tensor([number, 1])

    found, expected = (f(x) for f in (capture.optimize("eager", nopython=True)(program), program))
    assert str(found) == str(expected)


def test_a_tensor_as_a_plain_tensor(x):
    def play(a):
        plain = a.as_subclass(torch.Tensor)
        return plain is a, plain.grad_fn.name(), plain * 2

    captured = capture.optimize("eager", strict=True, nopython=True)(lambda a: a.as_subclass(torch.Tensor) * 2)
    assert torch.equal(captured(x), x * 2)
    wanting = x.clone().requires_grad_()
    assert str(capture.optimize("eager", strict=True)(play)(wanting)) == str(play(wanting))
