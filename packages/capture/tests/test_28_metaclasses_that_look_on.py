"""Metaclasses whose code runs where a class is looked at see the questions of CPython, each time, and no others."""

import copy
import dataclasses

import pytest
import torch

import capture

SEEN = []


class Missing(type):
    def __getattr__(cls, name):
        SEEN.append(("missing", name))
        if name == "made_up":
            return 4
        raise AttributeError(name)


class Any(type):
    def __getattribute__(cls, name):
        SEEN.append(("any", name))
        return super().__getattribute__(name)


class Compared(type):
    def __eq__(cls, other):
        SEEN.append("eq")
        return cls is other

    def __hash__(cls):
        SEEN.append("hash")
        return 5


def classes_of(metaclass):
    class Base(metaclass=metaclass):
        flag = 2

        def __init__(self, held=3):
            self.held = held

        def act(self, x):
            return x * self.held

        @property
        def more(self):
            return self.held + 1

        @classmethod
        def of_class(cls, x):
            return x + cls.flag

    class Thing(Base):
        def act(self, x):
            return super().act(x) + 1

    class Model(torch.nn.Module, metaclass=metaclass):
        def forward(self, x):
            return x * 2

    class Items(list, metaclass=metaclass):
        pass

    class Own(Exception, metaclass=metaclass):
        pass

    @dataclasses.dataclass
    class Data(metaclass=metaclass):
        a: int = 1

    return {"Base": Base, "Thing": Thing, "Model": Model, "Items": Items, "Own": Own, "Data": Data}


def raised(classes, thing, x):
    try:
        raise classes["Own"]("a")
    except classes["Own"] as error:
        return x + len(error.args)


def after_a_break(classes, thing, x):
    print(end="")
    return thing.act(x)


USES = {
    "attribute": lambda classes, thing, x: x + thing.held + thing.more,
    "method": lambda classes, thing, x: thing.act(x),
    "of the class": lambda classes, thing, x: thing.of_class(x) + classes["Thing"].flag + type(thing).flag,
    "missing": lambda classes, thing, x: x + getattr(thing, "nothing", 1) + hasattr(thing, "none"),
    "missing of the class": lambda classes, thing, x: x + getattr(classes["Thing"], "nothing", 1),
    "made up": lambda classes, thing, x: x + getattr(classes["Thing"], "made_up", 1),
    "has": lambda classes, thing, x: x + hasattr(classes["Thing"], "nothing") + hasattr(classes["Thing"], "flag"),
    "made": lambda classes, thing, x: classes["Thing"](4).act(x) + classes["Data"](3).a,
    "set": lambda classes, thing, x: (setattr(thing, "held", 5), x + thing.held)[1],
    "instance": lambda classes, thing, x: x + isinstance(thing, classes["Base"]) + isinstance(x, classes["Base"]),
    "which": lambda classes, thing, x: x + (type(thing) is classes["Thing"]),
    "equal": lambda classes, thing, x: x + (classes["Thing"] == classes["Base"]),
    "key": lambda classes, thing, x: x + {classes["Base"]: 1}.get(classes["Thing"], 2),
    "item": lambda classes, thing, x: x + classes["Thing"][1],
    "module": lambda classes, thing, x: classes["Model"]()(x),
    "list": lambda classes, thing, x: x + len(classes["Items"]([x, x])),
    "copy": lambda classes, thing, x: x + copy.copy(thing).held,
    "exception": raised,
    "break": after_a_break,
}


def outcomes(function, metaclass):
    classes = classes_of(metaclass)
    thing, found = classes["Thing"](), []
    for _ in range(3):
        SEEN.clear()
        try:
            result = function(classes, thing, torch.ones(2)).tolist()
        except TypeError as error:
            result = str(error)
        found.append((result, list(SEEN)))
    return found


@pytest.mark.parametrize("metaclass", [Missing, Any, Compared], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("function", USES.values(), ids=USES)
def test_it_sees_what_it_sees_in_eager(function, metaclass):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(function)
    assert outcomes(captured, metaclass) == outcomes(function, metaclass)
    left = any(isinstance(record, capture.FallbackRecord) for record in log.records())
    assert left == (metaclass is not Missing), "whoever sees that it is looked at is not"


def test_a_metaclass_asked_for_what_is_missing_is_no_reason_to_break(check, x):
    thing = classes_of(Missing)["Thing"]()
    check(lambda x: thing.act(x) + thing.more + type(thing).made_up, x)
