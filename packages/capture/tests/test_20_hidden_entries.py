"""Entries of an object's ``__dict__`` behind code of its class that has their names: each is read and written once."""

import itertools

import pytest
import torch

from capture import BreakRecord, Log, Options, optimize


class Doubled:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, obj, owner):
        return obj.__dict__[self.name] * 2

    def __set__(self, obj, value):
        obj.__dict__[self.name] = value + 1

    def __delete__(self, obj):
        obj.__dict__["deleted"] = obj.__dict__.pop(self.name)


class Descriptor:
    t = Doubled()


class Property:
    @property
    def t(self):
        return self.__dict__["t"] * 2

    @t.setter
    def t(self, value):
        self.__dict__["t"] = value + 1

    @t.deleter
    def t(self):
        self.__dict__["deleted"] = self.__dict__.pop("t")


class OwnAccess:
    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        return found * 2 if name == "t" else found

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 1)

    def __delattr__(self, name):
        object.__setattr__(self, "deleted", self.__dict__[name])
        object.__delattr__(self, name)


class Slot(OwnAccess):
    __slots__ = ("deleted", "t")


class Module(torch.nn.Module):
    t = Property.t


class Derived(Property):
    @property
    def t(self):
        return super().t * 3

    @t.setter
    def t(self, value):
        Property.t.fset(self, value + 5)


def update(o, x):
    vars(o).update(t=x, other=x * 2)
    return o.t


ACTIONS = {
    "read": lambda o, x: o.t + x,
    "read twice": lambda o, x: o.t * o.t + o.__dict__["t"],
    "read behind": lambda o, x: o.__dict__["t"] + x,
    "get": lambda o, x: getattr(o, "t", x) + vars(o).get("t", 0),
    "write": lambda o, x: (setattr(o, "t", x), o.t + x)[1],
    "write behind": lambda o, x: (o.__dict__.__setitem__("t", x), o.t + x)[1],
    "write as object": lambda o, x: (object.__setattr__(o, "u", x), o.u + x)[1],
    "read and write": lambda o, x: (setattr(o, "t", o.t + x), x)[1],
    "in place": lambda o, x: (o.__dict__["t"].add_(x) if isinstance(o.__dict__["t"], torch.Tensor) else o.t, x)[1],
    "delete": lambda o, x: (delattr(o, "t"), x)[1],
    "delete behind": lambda o, x: (o.__dict__.pop("t"), x)[1],
    "update": update,
    "returned": lambda o, x: o.__dict__,
}
BREAKS = {
    Slot: {"read", "read twice", "get", "write behind", "read and write", "update"},
}
HELD = {"tensor": lambda n: torch.full((2,), float(n)), "float": float, "int": int}


def seen(value):
    if isinstance(value, dict):
        return {name: seen(each) for name, each in value.items() if not name.startswith(("_", "training"))}
    return value.tolist() if isinstance(value, torch.Tensor) else value


def story(function, cls, held):
    """What three calls give, and how they leave the object."""
    found, o = [], cls()
    for number in (1, 2, 5):
        if hasattr(cls, "__slots__"):
            object.__setattr__(o, "t", HELD[held](number))
        else:
            o.__dict__["t"] = HELD[held](number)
        try:
            found.append(seen(function(o, torch.ones(2))))
        except (AttributeError, KeyError) as error:
            found.append((type(error), str(error)))
        found.append(seen(dict(object.__getattribute__(o, "__dict__"))))
    return found


@pytest.mark.parametrize(
    ("cls", "action", "held"),
    [*itertools.product((Descriptor, Property, OwnAccess, Slot, Module, Derived), ACTIONS, HELD)],
)
def test_code_behind_a_name_runs_as_often_as_in_cpython(cls, action, held):
    log = Log()
    captured = optimize("eager", options=Options(leave_idle=False), log=log)(ACTIONS[action])
    assert story(captured, cls, held) == story(ACTIONS[action], cls, held)
    assert any(isinstance(record, BreakRecord) for record in log.records()) == (action in BREAKS.get(cls, ()))
