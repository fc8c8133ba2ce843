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


# -- an AttributeError on the way --------------------------------------------------------------------------------------


class NothingThere:
    """A descriptor that has nothing for anybody."""

    def __get__(self, obj, cls):
        raise AttributeError("nothing here")


def refusing(base, **members):
    """An object of a class that answers for what it has not, and for what its own descriptors refuse."""

    def refuse(self):
        raise AttributeError("not now")

    members = {"refused": property(refuse), "beneath": property(lambda self: self.missing), **members}
    return type(f"Of{base.__name__}", (base,), {"other": NothingThere(), **members})


def answered(self, name):
    return "asked", name


def refuse_by_name(self, name):
    raise AttributeError(f"no {name}")


class Asked(type):
    """A metaclass that does the same for classes."""

    refused = property(lambda cls: cls.missing)
    __getattr__ = answered


BASES = (object, Exception, dict, tuple, list, torch.nn.Module, torch.nn.Sequential)
ANSWERING = {
    **{base.__name__: refusing(base, __getattr__=answered)() for base in BASES},
    "a class": Asked("Class", (), {}),
    "nobody asked": refusing(object)(),
    "a module as it is": refusing(torch.nn.Module)(),
    "who refuses, too": refusing(object, __getattr__=refuse_by_name)(),
    "its own getter": refusing(
        object, __getattr__=answered, __getattribute__=lambda self, name: object.__getattribute__(self, name)
    )(),
    "another error": refusing(object, __getattr__=answered, refused=property(lambda self: {}["key"]))(),
}


@pytest.mark.parametrize("kind", ANSWERING)
@pytest.mark.parametrize("name", ["refused", "beneath", "other", "missing"])
def test_an_attribute_error_on_the_way_leads_to_the_class_as_in_cpython(check, x, kind, name):
    def program(a):
        try:
            found = getattr(ANSWERING[kind], name)
        except (AttributeError, KeyError) as error:
            found = type(error), str(error), error.__context__
        return a + 1, found, hasattr(ANSWERING[kind], name) if kind != "another error" else None

    check(program, x)


def test_a_class_that_answers_later_is_noticed(x):
    cls = refusing(object)
    held = cls()
    captured = capture.optimize("eager", strict=True)(lambda a: (a + 1, getattr(held, "refused", "none")))
    assert captured(x)[1] == "none"
    cls.__getattr__ = answered
    assert captured(x)[1] == ("asked", "refused")
    del cls.__getattr__
    assert captured(x)[1] == "none"
