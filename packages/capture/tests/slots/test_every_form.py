"""What a member of a class means where it is read, written, deleted or called: every form that CPython's slots know.

Descriptors, ``type.__call__`` and the methods by which attributes are found, in all combinations of a few forms: plain
functions, decorators that are classes, callable objects, partial and static methods, and what captured code leaves to
CPython.  Each is compared with CPython in three calls, with something changed in between.
"""

import dataclasses
import functools
import itertools
import os
import random
from typing import NamedTuple

import pytest
import torch

import capture
from capture.options import Options

EVERYWHERE = Options(idle_instructions=None, leave_idle=False)


class Decorated:
    """A decorator that is a class, and binds as a function does."""

    def __init__(self, function):
        self.function = function

    def __get__(self, obj, owner=None):
        return self if obj is None else functools.partial(self.function, obj)

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


class Called:
    """An object that is called, and binds nothing."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


FORMS = {
    "function": lambda function: function,
    "decorated": Decorated,
    "called": Called,
    "partialmethod": lambda function: functools.partialmethod(function, "first"),
    "staticmethod": staticmethod,
    "disabled": capture.disable,
}


def drawn(cases, count):
    """So many of them, others in each run; all with ``SWEEPS=all``."""
    return cases if os.environ.get("SWEEPS") == "all" else random.Random().sample(cases, count)


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - to be compared
        return type(error).__name__, str(error)


def shown(value):
    """What can be compared of a result, by names: the classes of the two runs are not the same ones."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [shown(item) for item in value]
    if isinstance(value, (int, str, float, type(None))):
        return type(value).__name__, value
    return type(value).__name__


def state(obj):
    """What an object holds of its own."""
    held = {name: shown(value) for name, value in getattr(obj, "__dict__", {}).items() if not name.startswith("_")}
    slots = {name: shown(getattr(obj, name)) for name in ("kept", "asked") if hasattr(obj, name)}
    return list(held.items()), slots


# -- descriptors -------------------------------------------------------------------------------------------------


def got(*args):
    obj, owner = args[-2:]
    if obj is None or isinstance(obj, type):
        return "of the class", len(args), owner.__name__ if isinstance(owner, type) else owner
    obj.asked = obj.asked + 1
    return obj.kept * 3, len(args)


def put(*args):
    obj, value = args[-2:]
    if value < 0:
        raise ValueError("negative")
    obj.kept = value * 2
    if hasattr(obj, "__dict__"):
        obj.__dict__["w"] = value * 2


def gone(*args):
    obj = args[-1]
    obj.kept = -1
    if hasattr(obj, "__dict__"):
        obj.__dict__.pop("w", None)


def named(*args):
    args[-2].named = args[-1]


METHODS = {"__get__": got, "__set__": put, "__delete__": gone, "__set_name__": named}


def keeps(self, value):
    self.kept = value * 7


def drops(self):
    self.kept = -7


def of_function(*args):
    return len(args), [type(each).__name__ for each in args]


BASES = {
    "object": (object, ()),
    "property": (property, (lambda self: self.kept * 5, keeps, drops)),
    "reading": (property, (lambda self: self.kept * 5,)),
    "classmethod": (classmethod, (of_function,)),
    "staticmethod": (staticmethod, (of_function,)),
    "cached_property": (functools.cached_property, (lambda self: self.kept * 11,)),
}
SUBSETS = [chosen for count in range(5) for chosen in itertools.combinations(METHODS, count)]


def descriptor(base, chosen, form):
    cls, args = BASES[base]
    made = type("Descriptor", (cls,), {name: FORMS[form](METHODS[name]) for name in chosen})
    return made(*args)


def plain(member):
    class Owner:
        w = member

        def __init__(self):
            self.kept, self.asked = 1, 0

    return Owner


def module(member):
    class Owner(torch.nn.Module):
        w = member

        def __init__(self):
            super().__init__()
            self.kept, self.asked = 1, 0

    return Owner


def data(member):
    @dataclasses.dataclass
    class Owner:
        kept: int = 1
        asked: int = 0
        w = member

    return Owner


def slots(member):
    class Owner:
        __slots__ = ("asked", "kept")
        w = member

        def __init__(self):
            self.kept, self.asked = 1, 0

    return Owner


OWNERS = [plain, module, data, slots]


def owner_of(make, base, chosen, form):
    class Sub(make(descriptor(base, chosen, form))):
        __slots__ = ()

        def above(self):
            return super().w

        @classmethod
        def above_class(cls):
            return super().w

    return Sub


def taken(value):
    return value() if callable(value) else value


def read(x, a):
    return x * 2, taken(a.w)


def write(x, a):
    a.w = 3
    return x * a.kept


def write_what_is_refused(x, a):
    y = x * 2
    a.w = -3
    return y * a.kept


def delete(x, a):
    del a.w
    return x * a.kept


def write_and_read(x, a):
    a.w = 4
    return x * 2, taken(a.w), a.kept


def read_with_default(x, a):
    return x * 2, taken(getattr(a, "w", -1)), hasattr(a, "w")


def read_of_class(x, a):
    found = type(a).w
    return x * 2, "itself" if found is vars(type(a).__mro__[1])["w"] else taken(found)


def read_by_super(x, a):
    return x * 2, taken(a.above())


def read_by_super_of_class(x, a):
    return x * 2, taken(a.above_class())


PLAYS = [
    *(read, write, write_what_is_refused, delete, write_and_read, read_with_default),
    *(read_of_class, read_by_super, read_by_super_of_class),
]


def change(call, obj):
    """Something else for each further call: what descriptors read, and whether the object has an entry of its own."""
    obj.kept = 5 + call
    if call == 1 and hasattr(obj, "__dict__"):
        if "w" in obj.__dict__:
            del obj.__dict__["w"]
        else:
            obj.__dict__["w"] = 17


def played(function, cls, has_entry):
    obj, seen = cls(), []
    if has_entry and hasattr(obj, "__dict__"):
        obj.__dict__["w"] = 13
    for call in range(3):
        if call:
            change(call, obj)
        said = shown(outcome(function, torch.ones(2), obj))
        seen.append((said, state(obj), shown(getattr(type(obj), "named", None))))
    return seen


USES = list(itertools.product(SUBSETS, OWNERS, PLAYS, (False, True)))


def differs(base, form, chosen, make, play, has_entry):
    """What somebody could tell who uses an object with this descriptor; None where all is as in CPython."""
    try:
        theirs, ours = (owner_of(make, base, chosen, form) for _ in range(2))
    except (RuntimeError, TypeError):  # as `__set_name__` cannot be called so
        return None
    captured = capture.optimize("eager", options=EVERYWHERE)(play)
    expected, actual = played(play, theirs, has_entry), played(captured, ours, has_entry)
    return None if expected == actual else (chosen, make.__name__, play.__name__, has_entry, expected, actual)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("base", BASES)
def test_a_descriptor_is_asked_as_cpython_asks_it(base, form):
    assert [found for use in drawn(USES, 16) if (found := differs(base, form, *use))] == []


# -- making objects ----------------------------------------------------------------------------------------------


def begins(self, *args):
    self.k = self.k + 10 * args[-1]


def begins_another(self, *args):
    self.k = self.k + 100 * args[-1]


def is_wrong(self, *args):
    self.k = 1
    return 3


INITS = {"missing": None, "wrong": is_wrong, **{form: make(begins) for form, make in FORMS.items()}}
OF_SUBCLASS = {"missing": None, **{form: FORMS[form](begins_another) for form in FORMS}}


class Pair(NamedTuple):
    a: int
    b: int


class Elsewhere:
    k = 1000

    def __init__(self, *args):
        self.k = 2000


KINDS = {"object": (object, ()), "module": (torch.nn.Module, ()), "dict": (dict, ()), "error": (ValueError, ()),
         "list": (list, ()), "pair": (Pair, (1, 2)), "int": (int, (7,))}  # fmt: skip


def made(kind, cls):
    base, args = KINDS[kind]
    return base.__new__(cls, *args)


def makers(kind):
    """What `__new__` gives, for a class and its subclass."""

    def of_itself(cls, *args):
        return made(kind, cls)

    def of_subclass(cls, *args):
        return made(kind, cls.derived or cls)

    def of_another(cls, *args):
        return Elsewhere()

    def a_number(cls, *args):
        return 5

    def nothing(cls, *args):
        return None

    def always_one(cls, *args):
        return cls.one

    return {
        "missing": None,
        **{f.__name__: f for f in (of_itself, of_subclass, of_another, a_number, nothing, always_one)},
    }


def calls(cls, *args):
    return type.__call__(cls, *args), "through the metaclass"


def calls_static(*args):
    return "static", len(args)


METACLASSES = {"missing": None, **{form: make(calls) for form, make in FORMS.items() if form != "staticmethod"},
               "staticmethod": staticmethod(calls_static), "called": Called(calls_static)}  # fmt: skip


def class_of(kind, new, init, init_of_subclass, call):
    metaclass = type("Meta", (type,), given(__call__=METACLASSES[call]))
    members = given(__new__=makers(kind)[new], __init__=INITS[init])
    cls = metaclass("Made", (KINDS[kind][0],), {"k": 1, "derived": None, **members})
    cls.derived = metaclass("Derived", (cls,), given(__init__=OF_SUBCLASS[init_of_subclass]))
    if new == "always_one":
        cls.one = made(kind, cls)
    return cls


def given(**members):
    return {name: member for name, member in members.items() if member is not None}


def make(x, cls, n):
    found = cls(n)
    return x * 2, found, getattr(found, "k", None)


def make_of_derived(x, cls, n):
    found = cls.derived(n)
    return x * 2, found, getattr(found, "k", None)


def created(function, cls):
    seen = []
    for n in (1, 2, 3):
        found = outcome(function, torch.ones(2), cls, n)
        seen.append((shown(found), [state(each) for each in found if hasattr(each, "__dict__")]))
        cls.k = cls.k + 1
    return seen


CLASSES = list(itertools.product(INITS, OF_SUBCLASS, METACLASSES, (make, make_of_derived)))


def differs_when_made(kind, new, init, init_of_subclass, call, play):
    theirs, ours = (class_of(kind, new, init, init_of_subclass, call) for _ in range(2))
    captured = capture.optimize("eager", options=EVERYWHERE)(play)
    expected, actual = created(play, theirs), created(captured, ours)
    return None if expected == actual else (init, init_of_subclass, call, play.__name__, expected, actual)


@pytest.mark.parametrize("new", makers("object"))
@pytest.mark.parametrize("kind", KINDS)
def test_a_class_is_called_as_cpython_calls_it(kind, new):
    assert [found for each in drawn(CLASSES, 8) if (found := differs_when_made(kind, new, *each))] == []


# -- finding and assigning ---------------------------------------------------------------------------------------


def sets(*args):
    obj, name, value = args[-3:]
    object.__setattr__(obj, name, value * 2 if name == "v" else value)


def deletes(*args):
    obj, name = args[-2:]
    object.__setattr__(obj, name, -1)


def finds(*args):
    obj, name = args[-2:]
    return 7 if name == "v" else object.__getattribute__(obj, name)


def is_asked(*args):
    name = args[-1]
    if name != "missing":
        raise AttributeError(name)
    return len(args)


HOOKS = {"__setattr__": sets, "__delattr__": deletes, "__getattribute__": finds, "__getattr__": is_asked}


def assign_and_read(x, a):
    a.v = 3
    return x * 2, a.v


def take_away(x, a):
    del a.v
    return x * 2, getattr(a, "v", None)


def read_plain(x, a):
    return x * 2, a.v, hasattr(a, "v")


def read_missing(x, a):
    return x * 2, a.missing


def read_by_name(x, a):
    return x * 2, getattr(a, "missing", 0), hasattr(a, "other"), getattr(a, "v", 0)


def of_metaclass(hook, form):
    metaclass = type("Meta", (type,), {hook: FORMS[form](HOOKS_OF_CLASSES[hook])})
    cls = metaclass("Held", (), {})
    type.__setattr__(cls, "v", 1)
    return cls


def sets_of_class(*args):
    cls, name, value = args[-3:]
    type.__setattr__(cls, name, value * 2)


def deletes_of_class(*args):
    type.__setattr__(args[-2], args[-1], -1)


def finds_of_class(*args):
    cls, name = args[-2:]
    return 7 if name == "v" else type.__getattribute__(cls, name)


HOOKS_OF_CLASSES = {"__setattr__": sets_of_class, "__delattr__": deletes_of_class, "__getattribute__": finds_of_class,
                    "__getattr__": is_asked}  # fmt: skip


def of_object(hook, form, base=object):
    return type("Held", (base,), {hook: FORMS[form](HOOKS[hook])})()


def of_module(hook, form):
    return of_object(hook, form, torch.nn.Module)


def of_dict(hook, form):
    return of_object(hook, form, dict)


PLACES = [of_object, of_module, of_dict, of_metaclass]


def found(function, obj):
    seen, home = [], type if issubclass(type(obj), type) else object
    for value in (1, 2, 3):
        home.__setattr__(obj, "v", value)
        said = shown(outcome(function, torch.ones(2), obj))
        seen.append((said, shown(home.__getattribute__(obj, "__dict__").get("v"))))
    return seen


def differs_when_found(hook, place, form, play):
    try:
        theirs, ours = place(hook, form), place(hook, form)
    except Exception:  # noqa: BLE001 - as an object cannot be made so
        return None
    captured = capture.optimize("eager", options=EVERYWHERE)(play)
    expected, actual = found(play, theirs), found(captured, ours)
    return None if expected == actual else (form, play.__name__, expected, actual)


WAYS = list(itertools.product(FORMS, (assign_and_read, take_away, read_plain, read_missing, read_by_name)))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hook", HOOKS)
def test_attributes_are_found_by_what_the_class_has_for_it(hook, place):
    assert [found for way in drawn(WAYS, 8) if (found := differs_when_found(hook, place, *way))] == []
