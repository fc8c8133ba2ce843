"""Special methods of the program's own on members of enums, on classes and on modules are asked at every call."""

import enum
import operator
import types
import unittest.mock

import pytest
import torch

import capture

ANSWER = [5]
METHODS = {
    name: lambda self, *_: ANSWER[0]
    for name in [
        "__add__",
        "__radd__",
        "__mul__",
        "__getitem__",
        "__neg__",
        "__abs__",
        "__or__",
        "__mod__",
        "__round__",
    ]
}
METHODS |= {name: lambda self, *_: ANSWER[0] > 5 for name in ("__contains__", "__eq__", "__lt__", "__bool__")}
METHODS |= {"__str__": lambda self: f"{ANSWER[0]}", "__hash__": lambda self: 1}

OBJECTS = {
    "a member of an enum": lambda: enum.Enum("Some", {"A": 1}, type=type("Mixed", (), METHODS)).A,
    "a class": lambda: type("Meta", (type,), METHODS)("Made", (), {}),
    "a module": lambda: type("Lazy", (types.ModuleType,), METHODS)("lazy"),
}
ASKS = """
o + 3
3 + o
o * 3
o[0]
-o
abs(o)
o | 3
o % 3
round(o)
3 in o
o == 3
o < 3
1 if o else 2
not o
o in [3]
[7, o].index(3) if 3 in [o] else 9
[o].count(3)
(o,) == (3,)
{'a': o} == {'a': 3}
int(str(o))
int(f'{o}')
operator.add(o, 1)
sorted([3, o])[0] is o
""".strip().splitlines()


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("asked", ASKS)
def test_is_asked_at_every_call(kind, asked):
    o = OBJECTS[kind]()
    function = eval(f"lambda x: x + ({asked})", {"o": o, "operator": operator})
    log = capture.Log()
    compiled, seen = capture.optimize(log=log)(function), []
    for ANSWER[0] in (5, 6, 5):
        seen.append((compiled(torch.ones(1)).item(), function(torch.ones(1)).item()))
    assert [found for found, _ in seen] == [expected for _, expected in seen]
    left = any(isinstance(record, capture.FallbackRecord) for record in log.records())
    assert left == (kind == "a class"), "a metaclass with an ``__eq__`` of its own sees who looks at the class"


class One:
    pass


class Proxy:
    def __init__(self, held):
        self.held = held

    __class__ = property(lambda self: type(self.held))


def asks(x, p):
    return x + (10 if isinstance(p, One) else 20)


def matches(x, p):
    match p:
        case One():
            return x + 10
    return x + 20


@pytest.mark.parametrize("function", [asks, matches])
def test_the_class_that_an_object_says_it_is_of(function):
    compiled, x = capture.optimize()(function), torch.ones(1)
    mock = unittest.mock.Mock(spec=int)
    for given in (Proxy(3), Proxy(One()), mock):
        assert compiled(x, given).item() == function(x, given).item()
    mock.mock_add_spec(One())
    assert compiled(x, mock).item() == function(x, mock).item()


class Items(list):
    asked = 0

    def __len__(self):
        Items.asked += 1
        return super().__len__()


def test_the_length_of_a_subclass_is_not_asked_by_guards():
    Items.asked, items = 0, Items([1.0, 2.0])
    compiled = capture.optimize()(lambda x: x * items[0])
    for _ in range(3):
        compiled(torch.ones(1))
    assert Items.asked == 0
