"""Objects become text by the code of their class, wherever a program asks for it; `__getattr__` is asked for what a
property misses."""

import builtins
import collections
import datetime
import decimal
import pathlib
import random

import pytest
import torch
from torch import nn

import capture

pytestmark = pytest.mark.without_graphs(
    "texts that are made in C, of addresses and contents, are CPython's", cases="some"
)
NAMED = collections.namedtuple("NAMED", "a b")
BASES = {
    "object": (object, ()),
    "list": (list, ([1],)),
    "dict": (dict, ({"a": 1},)),
    "tuple": (tuple, ((1, 2),)),
    "set": (set, ([1],)),
    "str": (str, ("x",)),
    "int": (int, (3,)),
    "float": (float, (2.5,)),
    "named tuple": (NAMED, (1, 2)),
    "exception": (ValueError, ("e",)),
    "module": (nn.Module, ()),
    "deque": (collections.deque, ([1],)),
    "bytes": (bytes, (b"1",)),
    "decimal": (decimal.Decimal, ("1.5",)),
    "date": (datetime.date, (2020, 1, 1)),
    "path": (pathlib.PurePosixPath, ("a",)),
}
METHODS = {
    "__format__": lambda self, spec: f"F({spec})",
    "__str__": lambda self: "S",
    "__repr__": lambda self: "R",
}
FORMS = {
    "f": lambda x, o: f"{o}",
    "f, with a colon": lambda x, o: f"{o:}",
    "f, aligned": lambda x, o: f"{o:>5}",
    "!s": lambda x, o: f"{o!s}",
    "!s, aligned": lambda x, o: f"{o!s:>8}",
    "!r": lambda x, o: f"{o!r}",
    "format": lambda x, o: format(o),
    "format, with nothing": lambda x, o: format(o, ""),
    ".format": lambda x, o: "{}".format(o),  # noqa: UP032
    "%s": lambda x, o: "%s" % (o,),  # noqa: UP031
    "%r": lambda x, o: "%r" % (o,),  # noqa: UP031
    "str": lambda x, o: str(o),
    "repr": lambda x, o: repr(o),
    "map": lambda x, o: "-".join(map(str, [o, o])),
    "in a list": lambda x, o: f"{[o]}",
    "in a dict": lambda x, o: str({"a": o}),
    "in a tuple": lambda x, o: str((o,)),
}


def outcome(function, *args):
    try:
        return function(*args)
    except (TypeError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("base", BASES)
def test_an_object_becomes_text_as_in_cpython(base):
    cls, args = BASES[base]
    for _ in range(12):
        chosen = random.sample(list(METHODS), random.randrange(4))
        made = type("Made", (cls,), {name: METHODS[name] for name in chosen})
        form = random.choice(list(FORMS))
        program = FORMS[form]
        expected = outcome(program, torch.ones(2), made(*args))
        if "0x" in str(expected):  # an address
            continue
        compiled = capture.optimize("eager")(lambda x, o, program=program: (x + 1, program(x, o))[1])
        for _ in range(2):
            assert outcome(compiled, torch.ones(2), made(*args)) == expected, (chosen, form)


class Inner:
    scale = 4.0


class Wrapper:
    """Looks up what it lacks in what it wraps."""

    def __init__(self):
        self.inner, self.asked = Inner(), []

    @property
    def scale(self):
        return self.missing.scale

    def __getattr__(self, name):
        if name == "missing":
            raise AttributeError(name)
        self.asked.append(name)
        return getattr(self.inner, name)


class Descriptor:
    def __get__(self, instance, owner):
        raise AttributeError("nothing here")


class WithDescriptor(Wrapper):
    scale = Descriptor()


class WithGetter(Wrapper):
    def __getattribute__(self, name):
        if name == "scale":
            raise AttributeError("nothing here")
        return object.__getattribute__(self, name)


class Module(nn.Linear):
    @property
    def scale(self):
        return self.missing.scale


READS = {
    "plain": lambda x, o: x * o.scale,
    "hasattr": lambda x, o: x * o.scale if hasattr(o, "scale") else x * 0,
    "getattr": lambda x, o: x * getattr(o, "scale", 1.0),
}


@pytest.mark.parametrize("make", [Wrapper, WithDescriptor, WithGetter, lambda: Module(1, 1)])
@pytest.mark.parametrize("name", READS)
def test_what_a_property_misses_is_asked_of_getattr(make, name):
    expected, actual = make(), make()
    compiled = capture.optimize("eager")(READS[name])
    for size in (2, 2, 3):
        found = [outcome_of_reading(f, size, o) for f, o in ((READS[name], expected), (compiled, actual))]
        assert found[0] == found[1]
    assert getattr(actual, "asked", None) == getattr(expected, "asked", None)


def outcome_of_reading(function, size, owner):
    try:
        return function(torch.ones(size), owner).tolist()
    except AttributeError as error:
        return str(error)


BUILTIN = [cls for cls in vars(builtins).values() if isinstance(cls, type) and issubclass(cls, BaseException)]


class Own(OSError):
    """Its text is C's, behind code of its own."""

    def __str__(self):
        return f"own {super().__str__()}"


ARGUMENTS = {
    OSError: (2, "m", "f"),
    Own: (2, "m", "f"),
    SyntaxError: ("m", ("f.py", 3, 1, "t")),
    ImportError: ("m",),
    UnicodeDecodeError: ("utf8", b"x", 0, 1, "bad"),
    UnicodeEncodeError: ("utf8", "x", 0, 1, "bad"),
    UnicodeTranslateError: ("x", 0, 1, "bad"),
    ExceptionGroup: ("m", [ValueError(1)]),
    KeyError: ("m",),
    StopIteration: ("m",),
    SystemExit: ("m",),
    NameError: ("m",),
    AttributeError: ("m",),
}
TEXTS = {
    "str": lambda x, e: str(e),
    "f": lambda x, e: f"{e}",
    "repr": lambda x, e: repr(e),
    "%s": lambda x, e: "%s" % e,  # noqa: UP031
    "of another": lambda x, e: str(ValueError(e)),
}
MEMBERS = ("filename", "strerror", "msg", "reason", "name")


def made_and_changed(cls, member):
    made = cls(*ARGUMENTS[cls])
    if hasattr(made, member):
        setattr(made, member, "other")
    return made


def test_each_text_in_c_is_tried():
    """A class whose text C makes in a way of its own needs a row."""
    assert {cls for cls in BUILTIN if "__str__" in vars(cls)} <= {*ARGUMENTS, BaseException, BaseExceptionGroup}


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize("cls", ARGUMENTS)
def test_the_text_of_an_exception_tells_of_its_members(cls, form):
    program = TEXTS[form]
    compiled = capture.optimize("eager")(lambda x, e: (x + 1, program(x, e))[1])
    made = capture.optimize("eager")(lambda x: (x + 1, program(x, cls(*ARGUMENTS[cls])))[1])
    assert made(torch.ones(2)) == program(None, cls(*ARGUMENTS[cls]))
    for member in ("", *MEMBERS):
        expected, given = made_and_changed(cls, member), made_and_changed(cls, member)
        assert compiled(torch.ones(2), given) == program(None, expected)
