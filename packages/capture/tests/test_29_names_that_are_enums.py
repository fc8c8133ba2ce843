"""Members of enums, and other objects of classes derived from ``str`` and ``int``, where names, keys and numbers go."""

import enum
import functools
import operator

import pytest
import torch

import capture


class Text(enum.StrEnum):
    A = "a"
    MEAN = "mean"
    WEIGHT = "weight"


class Mixed(str, enum.Enum):  # noqa: UP042 - whose `str()` is another text
    A = "a"
    MEAN = "mean"
    WEIGHT = "weight"


class Named(str):
    pass


class Hashed(str):
    __hash__ = lambda self: 7
    __eq__ = str.__eq__


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Thing:
    a = 3.0

    def __init__(self):
        self.weight = 5.0
        self.mean = 7.0


class Telling:
    def __getattr__(self, name):
        return f"{name}|{type(name).__name__}"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.a = torch.nn.Identity()
        self.register_buffer("mean", torch.full((2,), 3.0))

    def forward(self, x, a=1.0):
        return x * a


MODEL = Model()
LAYERS = torch.nn.ModuleDict({"a": torch.nn.ReLU(), "mean": torch.nn.Tanh(), "weight": torch.nn.Sigmoid()})
NUMBERS = {"a": 2.0, "mean": 3.0, "weight": 4.0}


def by_keyword(x, a=1.0, **others):
    return x * a, {name: type(name).__name__ for name in others}


def positional_only(x, a=1.0, /, **others):
    return x * a, [type(name).__name__ for name in others]


def assigned(x, name):
    thing = Thing()
    setattr(thing, name, x)
    found = getattr(thing, name), [type(key).__name__ for key in vars(thing)]
    delattr(thing, name)
    return found, vars(thing)


def refused(x, name):
    try:
        return getattr(MODEL, "no_" + name), x
    except AttributeError as error:
        return str(error), x + 1


BY_NAME = {
    "attribute": lambda x, name: x * getattr(Thing(), name),
    "of a class": lambda x, name: x * getattr(Thing, name, 2.0),
    "with a default": lambda x, name: x * getattr(THING, name, 2.0) + getattr(THING, name * 2, 3.0),
    "plainly": lambda x, name: x * object.__getattribute__(THING, name),
    "asked for": lambda x, name: x * hasattr(THING, name) + hasattr(MODEL, name),
    "told": lambda x, name: (x + 1, getattr(TELLING, name), getattr(TELLING, name, 1), hasattr(TELLING, name)),
    "of a module": lambda x, name: MODEL.a(x) if name == "a" else getattr(MODEL, name) * x,
    "of torch": lambda x, name: getattr(torch, name if name == "mean" else "sum")(x),
    "of a tensor": lambda x, name: getattr(x, name)() if name == "mean" else x + hasattr(x, name),
    "assigned": assigned,
    "refused": refused,
    "key": lambda x, name: x * NUMBERS[name] + NUMBERS.get(name) + (name in NUMBERS),
    "new key": lambda x, name: ({name: x + 1}, {**NUMBERS, name: x}),
    "layer": lambda x, name: LAYERS[name](x) + (name in LAYERS),
    "state": lambda x, name: MODEL.state_dict().get(name, x) + 1,
    "keyword": lambda x, name: by_keyword(x, **{name: 3.0}),
    "keyword kept": lambda x, name: positional_only(x, **{name: 3.0}),
    "keyword of a module": lambda x, name: MODEL(x, **{name: 3.0}) if name == "a" else x,
    "keyword of a dict": lambda x, name: dict(**{name: x}),
    "keyword of a partial": lambda x, name: functools.partial(by_keyword, **{name: 3.0})(x),
    "getters": lambda x, name: x * operator.attrgetter(name)(THING) + operator.itemgetter(name)(NUMBERS),
    "option": lambda x, name: torch.nn.functional.mse_loss(x, x * 2, reduction="mean" if name == "a" else Text.MEAN),
}
THING, TELLING = Thing(), Telling()
NAMES = [*Text, *Mixed, Named("a"), Named("weight"), Hashed("a")]


BREAKS = {
    "plainly": 1, "told": 1, "assigned": 2, "keyword": 1, "keyword kept": 1, "keyword of a dict": 1,
    "keyword of a partial": 2, "getters": 2,
}  # fmt: skip
"""The number of breaks over a member of an enum, where there are any."""
BREAKS_OF_A = {**BREAKS, "assigned": 3, "keyword": 0, "keyword of a module": 1}
"""The same for the name "a", which is a parameter and an attribute of a class as well."""


@pytest.mark.parametrize("kind", BY_NAME)
def test_what_a_name_finds(kind, check, x):
    for name in NAMES:
        if isinstance(name, enum.Enum):
            breaks = (BREAKS_OF_A if name == "a" else BREAKS).get(kind, 0)
            check(BY_NAME[kind], x[0, :2], name, graphs=None, breaks=breaks)
        else:
            # Other classes of texts may have methods of their own, which library code in between calls as often as it
            # likes: releases of torch and Python differ.  Whatever is looked up by them, the graph ends there.
            log = check(BY_NAME[kind], x[0, :2], name, graphs=None, breaks=None)
            assert any(isinstance(record, capture.BreakRecord) for record in log.records())


def test_a_member_names_what_is_read_in_one_graph(check, x):
    def read(x, name, key):
        return getattr(x, name)() * getattr(THING, key) + by_keyword(x, **{Text.A: 2.0})[0] + MODEL.get_buffer(name)[0]

    for text in (Text, Mixed):
        check(read, x, text.MEAN, text.WEIGHT)


@pytest.mark.parametrize("keywords", [{1: 2}, {None: 2}, {("a",): 2}], ids=str)
def test_keywords_that_are_no_texts(keywords, check, x):
    check(lambda x: by_keyword(x + 1, **keywords), x, breaks=1)


@pytest.mark.parametrize("flags", [Flags(0), Flags.A, Flags.A | Flags.B, Flags(4)], ids=int)
def test_flags_are_numbers_of_a_graph(flags, check, x):
    check(lambda x: (x * flags, x.long() | flags, x.new_zeros(flags), x.sum(flags & 1)), x)
    assert capture.explain(lambda x: x * flags)(x).result.equal(x * int(flags))
