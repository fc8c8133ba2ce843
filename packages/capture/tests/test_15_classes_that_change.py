"""A class that changes between two calls changes what its objects do: members come, go and are replaced, on the class
itself, on a base or on a metaclass."""

import collections
import dataclasses
import enum
import functools
import gc
import hashlib
import itertools
import random
import weakref
from contextlib import contextmanager
from pathlib import Path
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


SOURCES = Path(capture.__file__).parent

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
    "iter": (asked(lambda t: sum(i for i in t)), "__iter__", (lambda self: iter((1, 2)), lambda self: iter((5,)))),
    "contains": (asked(lambda t: 1 in t), "__contains__", (lambda self, i: True, lambda self, i: False)),
    "item": (asked(lambda t: t[0]), "__getitem__", (lambda self, i: [7][i], lambda self, i: [8][i])),
    "items": (asked(lambda t: next(i for i in t)), "__getitem__", (lambda self, i: [7][i], lambda self, i: [8][i])),
    "call": (asked(lambda t: t(2)), "__call__", (lambda self, i: i, lambda self, i: i + 1)),
    "format": (asked(lambda t: f"{t:a}"), "__format__", (lambda self, s: "abc", lambda self, s: "abcd")),
    "str": (asked(lambda t: len(str(t)) % 97), "__str__", (lambda self: "abc", lambda self: "abcd")),
    "repr": (asked(lambda t: len(repr(t)) % 97), "__repr__", (lambda self: "abc", lambda self: "abcd")),
    "hash": (asked(lambda t: hash(t) == 5), "__hash__", (lambda self: 5, lambda self: 6)),
    "eq": (asked(lambda t: t == 4), "__eq__", (lambda self, o: True, lambda self, o: False)),
    "ne": (asked(lambda t: t != 4), "__ne__", (lambda self, o: False, lambda self, o: True)),
    "ne by eq": (asked(lambda t: t != 4), "__eq__", (lambda self, o: True, lambda self, o: False)),
    "lt": (asked(lambda t: t < 4), "__lt__", (lambda self, o: True, lambda self, o: False)),
    "gt by lt": (asked(lambda t: 4 > t), "__lt__", (lambda self, o: True, lambda self, o: False)),  # noqa: SIM300
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


class Meta(type):
    pass


def below(root, metaclass=type):
    class Base(root, metaclass=metaclass):
        pass

    class Thing(Base):
        def __init__(self):
            super().__init__()
            self.held = 5

        def by_super(self):
            return super().act()

    return Thing


SHAPES = {
    "plain": lambda: below(object),
    "module": module,
    "dataclass": dataclass,
    "dict": lambda: below(dict),
    "list": lambda: below(list),
    "set": lambda: below(set),
    "exception": lambda: below(Exception),
    "metaclass": lambda: below(object, Meta),
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


def compare(function, *changes):
    """Before, during and after each change the captured function says what the plain one says."""
    log = capture.Log()
    captured = capture.optimize("eager", log=log)(function)
    said = [outcome(function)]
    assert alike(outcome(captured), said[0])
    for change in changes:
        with change:
            said.append(outcome(function))
            assert alike(outcome(captured), said[-1])
        assert alike(outcome(captured), outcome(function))
    left = [record for record in log.records() if isinstance(record, capture.FallbackRecord)]
    assert all("metaclass whose code runs" in record.reason.explanation for record in left)
    return said


def once_more(function, thing, x):
    return function(thing, x) * 1


def an_object(shape, name, member, depth):
    cls = SHAPES[shape]()
    thing, owner = cls(), cls.__mro__[depth]
    if member is not None:
        setattr(owner, name, member)
    return thing, owner


def everything():
    """Shapes, how far up the class that changes is, questions, what there is before and what there is meanwhile."""
    for shape, depth, question in itertools.product(SHAPES, (0, 1), READS):
        one, other = READS[question][2]
        yield shape, depth, question, None, one
        if question != "any attribute":  # or no object could be made
            yield shape, depth, question, one, None
            yield shape, depth, question, one, other


CASES = list(everything())


def some(count):
    """The same for years, and as many others that change with every change of the package's code."""
    version = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.rglob("*.py")))).hexdigest()
    return [*random.Random(0).sample(CASES, count), *random.Random(version).sample(CASES, count)]


@pytest.mark.parametrize("part", range(4))
def test_a_member_that_comes_goes_or_is_replaced_is_seen(part, x):
    for shape, depth, question, before, change in some(120)[part::4]:
        function, name, _ = READS[question]
        thing, owner = an_object(shape, name, before, depth)
        compare(functools.partial(once_more, function, thing, x), changed(owner, name, change))


# -- what no member tells ----------------------------------------------------------------------------------------


class One:
    def act(self):
        return 1


class Other:
    def act(self):
        return 2

    def __len__(self):
        return 0


class Middle(One):
    pass


class Derived(Middle):
    shown = property(lambda self: 1)


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class Slot:
    __slots__ = ("held",)


class Colour(enum.Enum):
    RED = 1


class OfMeta(metaclass=Meta):
    pass


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Manager:
    def __enter__(self):
        return 1

    def __exit__(self, *error):
        return None


derived, pair, slot, net, manager = Derived(), Pair(1, 2), Slot(), Net(), Manager()
slot.held = 1


@contextmanager
def assigned(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    yield
    setattr(owner, name, before)


BASES = lambda: assigned(Middle, "__bases__", (Other,))

NO_MEMBERS = [
    (lambda x: x + derived.act(), BASES),
    (lambda x: x + 1 if derived else x - 1, BASES),
    (lambda x: x + isinstance(derived, Other), BASES),
    (lambda x: x + issubclass(Derived, Other), BASES),
    (lambda x: x + derived.act(), lambda: assigned(derived, "__class__", Other)),
    (lambda x: x + pair.a, lambda: changed(Pair, "a", property(lambda self: 5))),
    (lambda x: x + 1 if pair else x - 1, lambda: changed(Pair, "__bool__", lambda self: False)),
    (lambda x: x + slot.held, lambda: changed(Slot, "held", property(lambda self: 5))),
    (lambda x: x + getattr(Colour.RED, "shade", 2), lambda: changed(Colour, "shade", property(lambda self: 5))),
    (lambda x: x + 1 if Colour.RED else x - 1, lambda: changed(Colour, "__bool__", lambda self: False)),
    (lambda x: x + isinstance(derived, OfMeta), lambda: changed(Meta, "__instancecheck__", lambda cls, one: True)),
    (lambda x: x + issubclass(Derived, OfMeta), lambda: changed(Meta, "__subclasscheck__", lambda cls, one: True)),
    (lambda x: x + (OfMeta == 3), lambda: changed(Meta, "__eq__", lambda cls, one: True)),
    (lambda x: x + (3 if OfMeta() == 2 else 4), lambda: changed(Meta, "__call__", lambda cls: 2)),
    (lambda x: x + getattr(OfMeta, "flag", 3), lambda: changed(Meta, "flag", property(lambda cls: 5))),
    (lambda x: x + getattr(OfMeta, "flag", 3), lambda: changed(Meta, "__getattr__", lambda cls, name: 5)),
    (lambda x: x + 1 if OfMeta else x - 1, lambda: changed(Meta, "__bool__", lambda cls: False)),
    (lambda x: x + (3 if OfMeta() == 2 else 4), lambda: changed(OfMeta, "__new__", lambda cls: 2)),
    (lambda x: net(x), lambda: changed(Net, "_call_impl", lambda self, x: x * 5)),
    (lambda x: net(x), lambda: changed(Net, "__call__", lambda self, x: x * 5)),
    (lambda x: x + 1 if net else x - 1, lambda: changed(Net, "__bool__", lambda self: False)),
    (lambda x: _with(manager, x), lambda: changed(Manager, "__enter__", lambda self: 5)),
    (lambda x: x + derived.shown, lambda: changed(Derived, "shown", Descriptor(5))),
    (
        lambda x: x + derived.shown,
        lambda: mock.patch.object(Derived, "shown", new_callable=mock.PropertyMock, return_value=5),
    ),
    (
        lambda x: x + 1 if derived else x - 1,
        lambda: mock.patch.object(One, "__bool__", create=True, return_value=False),
    ),
]


@pytest.mark.parametrize(("function", "change"), NO_MEMBERS)
def test_what_else_changes_is_seen(function, change, x):
    before, during = compare(lambda: function(x) * 1, change())
    assert not alike(before, during)


# -- what it is not --------------------------------------------------------------------------------------------


def versions(log):
    return len([record for record in log.records() if isinstance(record, capture.GraphRecord)])


def test_a_member_that_nobody_asked_for_is_no_reason_to_capture_anew(x):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(lambda: x + derived.act())
    captured()
    for value in (3, lambda self: 4, property(lambda self: 5)):
        with changed(Middle, "unasked", value):
            captured()
    assert versions(log) == 1


def test_a_class_that_changed_too_often_for_numbers_is_still_looked_at(x):
    Changing, log = type("Changing", (One,), {"count": 0}), capture.Log()
    thing = Changing()
    captured = capture.optimize("eager", strict=True, log=log)(lambda: x + thing.act())
    for Changing.count in range(3000):
        captured()
    assert versions(log) == 1
    with changed(Changing, "act", lambda self: 5):
        assert torch.equal(captured(), x + 5)
    assert torch.equal(captured(), x + 1)
    assert versions(log) == 2


def test_the_class_is_named(x):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(lambda: x + 1 if derived else x - 1)
    captured()
    with changed(Derived, "__bool__", lambda self: False):
        captured()
    (record,) = [record for record in log.records() if isinstance(record, capture.RecompileRecord)]
    assert f"the class `{__name__}.Derived` behaves as it did" in record.failed


def test_classes_and_members_are_not_kept_alive(x):
    def made():
        class Gone:
            shown = property(lambda self: 1)

            def act(self, x):
                return x + self.shown

        captured = capture.optimize("eager", strict=True)(Gone.act)
        assert torch.equal(captured(Gone(), x), x + 1)
        return weakref.ref(Gone)

    gone = made()
    gc.collect()
    assert gone() is None


# -- classes of torch's modules ----------------------------------------------------------------------------------

ON_MODULES = {
    "property": (torch.nn.Linear, "in_features", property(lambda self: 7), lambda m, x: x * m.in_features),
    "truth": (torch.nn.Module, "__bool__", lambda self: False, lambda m, x: m(x) if m else x),
    "length": (torch.nn.Linear, "__len__", lambda self: 0, lambda m, x: m(x) if m else x),
    "attribute": (torch.nn.Linear, "__getattr__", lambda self, name: 3, lambda m, x: x * getattr(m, "extra", 1)),
    "absent": (torch.nn.Module, "extra", 5, lambda m, x: x * getattr(m, "extra", 1)),
    "method": (torch.nn.Linear, "forward", lambda self, x: x * 3, lambda m, x: m(x)),
    "call": (torch.nn.Linear, "__call__", lambda self, x: x * 4, lambda m, x: m(x)),
}


class DerivedLinear(torch.nn.Linear):
    pass


@pytest.mark.parametrize("cls", [torch.nn.Linear, DerivedLinear])
@pytest.mark.parametrize("name", ON_MODULES)
def test_a_member_put_on_a_class_of_torch(x, name, cls):
    owner, member, value, function = ON_MODULES[name]
    model = cls(3, 3)
    captured = capture.optimize("eager", strict=True)(function)
    for _ in range(2):
        assert torch.equal(captured(model, x), function(model, x))
        with mock.patch.object(owner, member, value, create=True):
            assert torch.equal(captured(model, x), function(model, x))


def test_modules_of_one_class_share_a_guard(x):
    log = capture.Log()
    model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(5)))
    capture.optimize("eager", strict=True, log=log)(model)(x)
    (graph,) = (record for record in log.records() if isinstance(record, capture.GraphRecord))
    assert sum("Linear` behaves as it did" in guard for guard in graph.guards) == 1
