"""Descriptors, enums and classes as programs usually write them: one graph, and the results and effects of CPython."""

import enum
import functools
import sys
from typing import NamedTuple

import pytest
import torch

import capture


class Validated:
    """A descriptor that is told of assignments alone."""

    def __set_name__(self, owner, name):
        self.name = name

    def __set__(self, obj, value):
        if value < 0:
            raise ValueError(f"{self.name} is negative")
        obj.__dict__[self.name] = min(value, 3)


class ClassProperty(property):
    def __get__(self, obj, owner=None):
        return self.fget(owner)


class Hybrid(classmethod):
    def __get__(self, obj, owner=None):
        return super().__get__(obj, owner) if obj is None else self.__func__.__get__(obj, owner)


class Doubled(property):
    def __set__(self, obj, value):
        super().__set__(obj, 2 * value)


class Thing:
    width, level = Validated(), 2

    def __init__(self, width):
        self.width = width

    @ClassProperty
    def of_class(cls):
        return cls.level

    @Hybrid
    def hybrid(it):
        return it.level

    @Doubled
    def depth(self):
        return self._depth

    @depth.setter
    def depth(self, value):
        self._depth = value


class Layer(torch.nn.Module):
    cap = Validated()

    def __init__(self):
        super().__init__()
        self.cap = 1

    def forward(self, x):
        self.cap = self.cap + 1
        return x * self.cap


class Shape:
    def __new__(cls, kind):
        return object.__new__(Circle if kind == "circle" else cls)

    def __init__(self, kind):
        self.corners = 4


class Circle(Shape):
    def __init__(self, kind):
        self.corners = 0


class Fields(dict):
    __getattr__, __setattr__, __delattr__ = dict.__getitem__, dict.__setitem__, dict.__delitem__

    def __deepcopy__(self, memo):
        return Fields(self)


class Op(enum.Enum):
    A = 1

    def __add__(self, other):
        return "added"

    def __radd__(self, other):
        return "added to"


class Unit:
    def __add__(self, other):
        return NotImplemented

    def __radd__(self, other):
        return "unit"


def validates(x, thing):
    thing.width = 7
    return x * Thing(1).width * thing.width


def refuses(x, thing):
    try:
        thing.width = -1
    except ValueError as error:
        return x + 1, str(error), thing.width
    return x


def asks_the_class(x, thing):
    thing.level = 50
    return x * thing.of_class * thing.hybrid() * Thing.hybrid()


def sets_by_the_subclass(x, thing):
    thing.depth = 3
    return x * thing.depth, vars(thing)


def clamps_in_a_module(x, layer):
    return layer(layer(x))


def makes_the_subclass(x, thing):
    return x * (Shape("circle").corners + Shape("square").corners)


def keeps_attributes_as_items(x, fields):
    fields.a = fields.a + 1
    fields.b = 2
    del fields.a
    return x * fields.b, dict(fields), vars(fields)


def adds_members(x, thing):
    return x + 1, Op.A + Unit(), Unit() + Op.A, 1 + Op.A, Op.A + 1


PROGRAMS = {
    **{f: lambda: Thing(2) for f in (validates, refuses, asks_the_class, sets_by_the_subclass, makes_the_subclass)},
    clamps_in_a_module: Layer,
    keeps_attributes_as_items: lambda: Fields(a=1),
    adds_members: lambda: None,
}


@pytest.mark.parametrize("function", PROGRAMS)
def test_is_one_graph(check, x, function):
    check(function, x, PROGRAMS[function]())


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="classmethod binds functions alone since 3.13")
def test_a_class_method_of_a_property_is_its_value(check, x):
    class Flagged:
        scale = classmethod(property(lambda cls: 3))
        is_on = classmethod(property(lambda cls: False))

    check(lambda x, flagged: x * flagged.scale * (2 if flagged.is_on else 1) * Flagged.scale, x, Flagged())


def test_the_value_of_a_member_is_what_it_is_now(x):
    class Color(enum.Enum):
        RED = 1
        MANY = [1]

    captured = capture.optimize("eager")(lambda x: (x * Color.RED.value, len(Color.MANY.value)))
    assert captured(x)[1] == 1
    Color.RED._value_ = 11
    Color.MANY.value.append(2)
    assert torch.equal(captured(x)[0], x * 11)
    assert captured(x)[1] == 2


class Added(NamedTuple):
    a: int

    def __radd__(self, other):
        return "added to", other


def test_a_tuple_that_is_added_is_asked_first(check, x):
    check(lambda x, added: (x + 1, (1, 2) + added), x, Added(3), breaks=None, graphs=None)


class Counted:
    """A decorator that is a class."""

    def __init__(self, function):
        self.function, self.count = function, 0

    def __get__(self, obj, owner=None):
        return functools.partial(self, obj)

    def __call__(self, *args):
        self.count += 1
        return self.function(*args)


def test_an_init_that_is_no_function_is_called(check, x):
    class Begun:
        k = 0

        @Counted
        def __init__(self, more):
            self.k = more

    check(lambda x: x * Begun(4).k, x)
    assert vars(Begun)["__init__"].count == 2
