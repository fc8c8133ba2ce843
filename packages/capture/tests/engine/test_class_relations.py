"""A class that is what it was: its order of bases, and the functions and descriptors that it has by some names."""

import gc
import sys
import weakref

import pytest
from engine_under_test import Guards

SPECIAL, NAMES = ("__bool__", "__len__", "__hash__"), ("act", "shown", "held")


def of(cls, *watched):
    told = (cls, watched or cls.__mro__[:-1], SPECIAL, NAMES)
    return Guards((("root",), (), ()), (("class", 3, (), told, None),))


class Meta(type):
    pass


class Slotted(metaclass=Meta):
    __slots__ = ("held",)


class Base(Slotted):
    def act(self):
        pass

    shown = property(lambda self: 1)
    made = staticmethod(lambda: 1)
    count = 0


class Derived(Base):
    __hash__ = None


class Another(Base):
    act = property(Base.act)


ABSENT = object()


@pytest.mark.parametrize(
    ("owner", "name", "member"),
    [
        (Derived, "__bool__", lambda self: True),
        (Base, "__len__", object()),
        (Derived, "__hash__", ABSENT),
        (Base, "act", lambda self: 1),
        (Derived, "act", staticmethod(Base.act)),
        (Base, "shown", property(lambda self: 2)),
        (Base, "shown", property(Base.shown.fget, lambda self, value: None)),
        (Base, "shown", 1),
        (Slotted, "held", ABSENT),
        (Derived, "__bases__", (Another,)),
        (Derived, "__class__", type("Other", (Meta,), {})),
    ],
)
def test_what_is_relied_on_fails_while_it_is_another(owner, name, member):
    moves = name in ("__bases__", "__class__")
    guards, before = of(Derived), getattr(owner, name) if moves else vars(owner).get(name, ABSENT)
    for value, fails in ((member, True), (before, False)):
        delattr(owner, name) if value is ABSENT else setattr(owner, name, value)
        for _ in range(2):
            assert (guards.first_failure(None, ()) == 3) == fails


@pytest.mark.parametrize("name", ["count", "made", "more", "__doc__"])
def test_nothing_else_matters(name):
    guards = of(Derived)
    for value in (1, lambda self: 2, property(lambda self: 3)):
        setattr(Derived, name, value)
        assert guards.check(None, ())


def test_equal_members_made_anew_are_as_before():
    guards = of(Derived)
    Base.shown = property(Base.shown.fget)
    assert guards.check(None, ())


def test_bases_that_are_not_watched_may_change():
    guards = of(Derived, Derived)
    Base.act = lambda self: 5
    assert guards.check(None, ())


def test_classes_and_their_members_are_held_weakly():
    cls = Meta("Gone", (), {"act": lambda self: 1, "shown": property(lambda self: 1)})
    guards, gone, member = of(cls), weakref.ref(cls), weakref.ref(cls.act)
    cls.act = None
    assert member() is None
    assert not guards.check(None, ())
    count = sys.getrefcount(cls)
    del guards
    assert sys.getrefcount(cls) == count
    del cls
    gc.collect()
    assert gone() is None


def test_a_class_without_any_more_numbers_is_looked_at_each_time():
    cls = Meta("Changing", (Base,), {})
    guards = of(cls)
    for cls.count in range(3000):
        assert guards.check(None, ())
    cls.act = lambda self: 1
    assert not guards.check(None, ())


@pytest.mark.parametrize("told", [None, (int, (), ()), (1, (), (), ()), (int, [], (), ())])
def test_what_is_told_of_a_class_is_four_items(told):
    with pytest.raises(TypeError):
        Guards((("root",), (), ()), (("class", 0, (), told, None),))
