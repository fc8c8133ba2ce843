"""A class that changes between two calls changes what its objects do: members come, go and are replaced, on the class
itself, on a base or on a metaclass."""

import dataclasses
import functools
from contextlib import contextmanager
from unittest import mock

import pytest
import torch

import capture

# -- what a function may ask of an object, and the member that answers -------------------------------------------


def _with(thing, x):
    with thing as entered:
        return x + (entered if type(entered) is int else 0)


def _set(thing, x):
    thing.written = 2
    return x + vars(thing).get("written", -1)


def _in_place(thing, x):
    thing += 3
    return x + (thing if type(thing) is int else -1)


def _asked(question, other, thing, x):
    try:
        found = question(thing)
    except (TypeError, AttributeError, KeyError):
        return x - 100
    return x + (int(found) if type(found) in (int, bool) else len(found) if type(found) is str else other)


def asked(question, other=-1):
    return functools.partial(_asked, question, other)


_HERE = asked(lambda t: True)

READS = {
    # what is read: the function, the name of the member, and two members by this name
    "attribute": (lambda t, x: x + getattr(t, "flag", 0), "flag", (1, property(lambda self: 2))),
    "property": (lambda t, x: x + t.flag, "flag", (property(lambda self: 2), property(lambda self: 3))),
    "of the class": (lambda t, x: x + type(t).flag, "flag", (1, 2)),
    "method": (asked(lambda t: t.act()), "act", (lambda self: 1, lambda self: 2)),
    "static": (asked(lambda t: t.act()), "act", (staticmethod(lambda: 1), classmethod(lambda cls: 2))),
    "class method": (asked(lambda t: type(t).act()), "act", (classmethod(lambda cls: 1), staticmethod(lambda: 2))),
    "bool": (lambda t, x: x + 1 if t else x - 1, "__bool__", (lambda self: False, lambda self: True)),
    "len": (asked(lambda t: len(t)), "__len__", (lambda self: 3, lambda self: 0)),
    "length as truth": (lambda t, x: x + 1 if t else x - 1, "__len__", (lambda self: 3, lambda self: 0)),
    "iter": (asked(lambda t: sum([i for i in t])), "__iter__", (lambda self: iter((1, 2)), lambda self: iter((5,)))),
    "contains": (asked(lambda t: 1 in t), "__contains__", (lambda self, i: True, lambda self, i: False)),
    "item": (asked(lambda t: t[0]), "__getitem__", (lambda self, i: [7][i], lambda self, i: [8][i])),
    "items": (asked(lambda t: [i for i in t][0]), "__getitem__", (lambda self, i: [7][i], lambda self, i: [8][i])),
    "call": (asked(lambda t: t(2)), "__call__", (lambda self, i: i, lambda self, i: i + 1)),
    "format": (asked(lambda t: f"{t:a}"), "__format__", (lambda self, s: "abc", lambda self, s: "abcd")),
    "str": (asked(lambda t: len(str(t)) % 97), "__str__", (lambda self: "abc", lambda self: "abcd")),
    "repr": (asked(lambda t: len(repr(t)) % 97), "__repr__", (lambda self: "abc", lambda self: "abcd")),
    "hash": (asked(lambda t: hash(t) == 5), "__hash__", (lambda self: 5, lambda self: 6)),
    "eq": (asked(lambda t: t == 4), "__eq__", (lambda self, o: True, lambda self, o: False)),
    "ne": (asked(lambda t: t != 4), "__ne__", (lambda self, o: False, lambda self, o: True)),
    "ne by eq": (asked(lambda t: t != 4), "__eq__", (lambda self, o: True, lambda self, o: False)),
    "lt": (asked(lambda t: t < 4), "__lt__", (lambda self, o: True, lambda self, o: False)),
    "gt by lt": (asked(lambda t: 4 > t), "__lt__", (lambda self, o: True, lambda self, o: False)),
    "add": (asked(lambda t: t + 4), "__add__", (lambda self, o: o, lambda self, o: o + 1)),
    "radd": (asked(lambda t: 4 + t), "__radd__", (lambda self, o: o, lambda self, o: o + 1)),
    "in place": (_in_place, "__iadd__", (lambda self, o: o, lambda self, o: o + 1)),
    "neg": (asked(lambda t: -t), "__neg__", (lambda self: 1, lambda self: 2)),
    "int": (asked(lambda t: int(t)), "__int__", (lambda self: 1, lambda self: 2)),
    "index": (asked(lambda t: [5, 6, 7][t]), "__index__", (lambda self: 1, lambda self: 2)),
    "float": (asked(lambda t: int(float(t))), "__float__", (lambda self: 1.0, lambda self: 2.0)),
    "abs": (asked(lambda t: abs(t)), "__abs__", (lambda self: 1, lambda self: 2)),
    "missing": (asked(lambda t: t.nothing), "__getattr__", (lambda self, n: 1, lambda self, n: len(n))),
    "has": (asked(lambda t: hasattr(t, "nothing")), "__getattr__", (lambda self, n: 1, lambda self, n: len(n))),
    "any attribute": (
        lambda t, x: x + t.held,
        "__getattribute__",
        (lambda self, n: 1, lambda self, n: 7 if n == "held" else object.__getattribute__(self, n)),
    ),
    "set": (
        _set,
        "__setattr__",
        (lambda self, n, v: object.__setattr__(self, n, v + 1), lambda self, n, v: None),
    ),
    "set property": (_set, "written", (property(lambda self: 0, lambda self, v: None), 5)),
    "class": (asked(lambda t: t.__class__ is int), "__class__", (property(lambda self: int), property(lambda s: str))),
    "instance by class": (
        lambda t, x: x + isinstance(t, int),
        "__class__",
        (property(lambda self: int), property(lambda s: str)),
    ),
    "callable": (lambda t, x: x + callable(t), "__call__", (lambda self: 1, lambda self: 2)),
    "super": (asked(lambda t: t.by_super()), "act", (lambda self: 1, lambda self: 2)),
    "torch function": (
        lambda t, x: x + (torch.add(x, t) if hasattr(t, "__torch_function__") else 0),
        "__torch_function__",
        (
            classmethod(lambda cls, function, types, args=(), kwargs=None: args[0] * 2),
            classmethod(lambda cls, function, types, args=(), kwargs=None: args[0] * 3),
        ),
    ),
}


# -- the classes -------------------------------------------------------------------------------------------------


class Descriptor:
    def __init__(self, said):
        self.said = said

    def __get__(self, obj, owner=None):
        return self.said


def plain():
    class Base:
        pass

    class Thing(Base):
        def __init__(self):
            self.held = 5

        def by_super(self):
            return super().act()

    return Thing


def module():
    class Base(torch.nn.Module):
        pass

    class Thing(Base):
        def __init__(self):
            super().__init__()
            self.held = 5

        def by_super(self):
            return super().act()

        def forward(self, x):
            return x

    return Thing


def dataclass():
    class Base:
        pass

    @dataclasses.dataclass(eq=False, repr=False)
    class Thing(Base):
        held: int = 5

        def by_super(self):
            return super().act()

    return Thing


def of_container(base):
    class Base(base):
        pass

    class Thing(Base):
        def __init__(self):
            super().__init__()
            self.held = 5

        def by_super(self):
            return super().act()

    return Thing


class Meta(type):
    pass


def of_metaclass():
    class Base(metaclass=Meta):
        pass

    class Thing(Base):
        def __init__(self):
            self.held = 5

        def by_super(self):
            return super().act()

    return Thing


SHAPES = {
    "plain": plain,
    "module": module,
    "dataclass": dataclass,
    "dict": lambda: of_container(dict),
    "list": lambda: of_container(list),
    "set": lambda: of_container(set),
    "exception": lambda: of_container(Exception),
    "metaclass": of_metaclass,
}


@contextmanager
def changed(owner, name, member):
    """As long as it lasts the class has this member; None: it has none."""
    absent = object()
    before = vars(owner).get(name, absent)
    if member is not None:
        setattr(owner, name, member)
    elif before is not absent:
        delattr(owner, name)
    try:
        yield
    finally:
        if before is not absent:
            setattr(owner, name, before)
        elif name in vars(owner):
            delattr(owner, name)


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - whatever it raises has to be the same
        return type(error)


def alike(one, other):
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    return one is other
