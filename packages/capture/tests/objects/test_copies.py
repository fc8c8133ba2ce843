"""Copies, shallow and deep: what is a copy, what the very object, who is asked how, and in which order."""

import collections
import copy
import enum
import types
from typing import NamedTuple

import pytest
import torch
from what_is_seen import differing, outcome, seen

LOG = []


class Plain:
    def __init__(self, n=0):
        self.n, self.held = n, [n]


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n=0):
        self.n = n


class Hooked(Plain):
    def __copy__(self):
        LOG.append("copy")
        return "shallow", self.n

    def __deepcopy__(self, memo):
        LOG.append("deep")
        return ["deep", self.n]


class Static(Plain):
    __copy__ = staticmethod(lambda x: ("static", x.n))
    __deepcopy__ = staticmethod(lambda memo: ("static", type(memo)))


class OfClass(Plain):
    __copy__ = classmethod(lambda cls, x: (cls.__name__, x.n))
    __deepcopy__ = classmethod(lambda cls, memo: (cls.__name__, type(memo)))


class NoHook(Plain):
    __copy__ = None
    __deepcopy__ = None


class Reduced(Plain):
    def __reduce_ex__(self, protocol):
        return Plain, (self.n + 10,)


class WithState(Plain):
    def __getstate__(self):
        return {"n": self.n + 100}


class Asked:
    """Answers for what is missing, and keeps what it was asked for."""

    def __init__(self, n=0):
        self.n = n

    def __getattr__(self, name):
        LOG.append(name)
        raise AttributeError(name)


class Inventive:
    def __init__(self, n=0):
        self.n = n

    def __getattr__(self, name):
        if name == "__deepcopy__":
            return lambda memo: ("invented", self.n)
        raise AttributeError(name)


class P(NamedTuple):
    a: object
    b: object


class Derived(P):
    pass


class Made(P):
    def __new__(cls, a, b=1):
        LOG.append("new")
        return super().__new__(cls, (a, a), b)


class HookedTuple(P):
    def __copy__(self):
        return "shallow", self.a

    def __deepcopy__(self, memo):
        return "deep", self.b


class ReducedTuple(P):
    def __reduce__(self):
        return P, (7, 8)


class OtherArguments(P):
    def __getnewargs__(self):
        return (5, 6)


class Items(tuple):
    pass


class Numbered(tuple):
    def __new__(cls, items=()):
        return super().__new__(cls, [*items, len(items)])


class Member(enum.Enum):
    ONE = 1

    def __deepcopy__(self, memo):
        return "own"


class OwnList(list):
    pass


class OwnDict(dict):
    pass


class Factory:
    def __call__(self):
        return 3


def with_attribute(made, name, value):
    setattr(made, name, value)
    return made


def ring(n):
    items = ([n],)
    items[0].append(items)
    return items


def shared(n):
    one = Plain(n)
    return [one, {"k": one}, (one, one), {one: one}, {one}]


KINDS = {
    "dict of objects": lambda n: {Plain(n): Plain(n), "a": n},
    "dict of tensors": lambda n: {torch.ones(1): n},
    "dict of pairs": lambda n: {(Plain(n), 1): n, ("a", n): 2},
    "dict of functions": lambda n: {len: n, Plain: [n]},
    "dict of named tuples": lambda n: {P(Plain(n), n): n},
    "dict of frozensets": lambda n: {frozenset({n}): n},
    "nested": lambda n: {"a": {Plain(n): [{Plain(n)}]}},
    "OrderedDict": lambda n: collections.OrderedDict({Plain(n): [n]}),
    "OrderedDict with attribute": lambda n: with_attribute(collections.OrderedDict({Plain(n): [n]}), "w", [n]),
    "defaultdict": lambda n: collections.defaultdict(list, {Plain(n): [n]}),
    "defaultdict of an object": lambda n: collections.defaultdict(Factory(), {"a": [n]}),
    "set": lambda n: {Plain(n), n, "a"},
    "set of pairs": lambda n: {(Plain(n), 1)},
    "set of constants": lambda n: {n, "a", (1, n)},
    "set of hooked": lambda n: {Hooked(n)},
    "frozenset": lambda n: frozenset({n, "a", (1, n)}),
    "list": lambda n: [n, [Plain(n)], "a"],
    "deque": lambda n: collections.deque([[n], Plain(n)], maxlen=2),
    "tuple": lambda n: (n, [n], (n, "a")),
    "tuple of constants": lambda n: (n, "a", (1, P(1, 2))),
    "ring": ring,
    "shared": shared,
    "named tuple": lambda n: P(n, [n]),
    "derived": lambda n: Derived(n, [n]),
    "derived with attribute": lambda n: with_attribute(Derived(n, [n]), "w", [n]),
    "named tuple with __new__": lambda n: Made(n, [n]),
    "named tuple with hooks": lambda n: HookedTuple(n, [n]),
    "named tuple, reduced": lambda n: ReducedTuple(n, [n]),
    "named tuple, other arguments": lambda n: OtherArguments(n, [n]),
    "named tuple with a hook of its own": lambda n: with_attribute(Derived(n, [n]), "__deepcopy__", lambda memo: "own"),
    "items": lambda n: Items([n, [n]]),
    "numbered": lambda n: Numbered([n, [n]]),
    "size": lambda n: torch.Size([n, 2]),
    "object": Plain,
    "slots": Slotted,
    "hooks": Hooked,
    "static hooks": Static,
    "hooks of the class": OfClass,
    "hooks that are None": NoHook,
    "reduced": Reduced,
    "state": WithState,
    "asked": Asked,
    "inventive": Inventive,
    "namespace": lambda n: types.SimpleNamespace(n=[n]),
    "member": lambda n: Member.ONE,
    "list of members": lambda n: [Member.ONE, n],
    **{
        f"{name} on the instance": lambda n, name=name: with_attribute(Plain(n), name, lambda *_: ("own", n))
        for name in ("__copy__", "__deepcopy__")
    },
    "__reduce_ex__ on the instance": lambda n: with_attribute(
        Plain(n), "__reduce_ex__", lambda protocol: (Plain, (9,))
    ),
    "__reduce__ on the instance": lambda n: with_attribute(Plain(n), "__reduce__", lambda: (Plain, (9,))),
    "__getstate__ on the instance": lambda n: with_attribute(Plain(n), "__getstate__", lambda: {"n": 9}),
    "own list": lambda n: with_attribute(OwnList([Plain(n)]), "w", [n]),
    "own dict": lambda n: OwnDict({Plain(n): [n]}),
    "exception": lambda n: ValueError(n, [n]),
    "range": range,
    "partial": lambda n: [n, len],
    "keys": lambda n: [*{Plain(n): 1}],
}


def relation(one, other, depth=0):
    """Which parts of two structures are one object, and of what types they are."""
    # Of two equal tuples within, nobody but `is` can tell which it is.
    same = (type(other).__name__, one is other if not depth or not isinstance(one, tuple) else "some")
    if same[1] is True or type(one) is not type(other) or depth > 3:
        return same
    if isinstance(one, (list, tuple, collections.deque)):
        return same, [relation(a, b, depth + 1) for a, b in zip(one, other, strict=False)]
    if isinstance(one, dict):
        keys = [relation(a, b, depth + 1) for a, b in zip(one, other, strict=False)]
        values = [relation(a, b, depth + 1) for a, b in zip(one.values(), other.values(), strict=False)]
        return same, keys, values, [key in other for key in one]
    if isinstance(one, (set, frozenset)):
        return same, len(other), sum(any(item is kept for kept in one) for item in other if not isinstance(item, tuple))
    return same, [
        relation(a, b, depth + 1) for a, b in zip(vars(one).values(), vars(other).values(), strict=False)
    ] if (hasattr(type(one), "__dict__") and hasattr(one, "__dict__")) else same


FORMS = {
    "outside": lambda x, o, how: (x + 1, how(o)),
    "in a list": lambda x, o, how: (x + 1, how([o, o])),
    "looked for": lambda x, o, how: (x + 1, sum(key in how(o) for key in o) if isinstance(o, (dict, set)) else how(o)),
    "written to": lambda x, o, how: (x + 1, with_attribute(how(types.SimpleNamespace(o=o)), "w", 1)),
}
HOWS = {"copy": copy.copy, "deepcopy": copy.deepcopy}


@pytest.mark.without_graphs("what is copied by code of C or of the program's own is CPython's", cases="some")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", HOWS)
def test_copies(how, form):
    def calls(compiled, make):
        function, found = compiled(FORMS[form]), []
        for n in (1, 1, 2, 1):
            LOG.clear()
            o = make(n)
            try:
                made = function(torch.ones(2), o, HOWS[how])[1]
            except Exception as error:  # noqa: BLE001
                found.append((outcome(lambda error=error: error), [*LOG], seen(o)))
                continue
            asked = [*LOG]
            found.append((seen(made), relation([o, o], made), relation(o, made), asked, seen(o)))
        return found

    assert differing(KINDS.items(), calls) == []


@pytest.mark.parametrize("how", HOWS)
def test_copies_in_one_graph_are_what_they_are(how):
    def look(x, o):
        made = HOWS[how](o)
        return x * 2, made, relation(o, made)

    def calls(compiled, make):
        function = compiled(look)
        return [outcome(function, torch.ones(2), make(n)) for n in (1, 1, 2)]

    chosen = (
        "dict of objects",
        "dict of pairs",
        "set",
        "shared",
        "ring",
        "named tuple",
        "derived",
        "object",
        "frozenset",
    )
    assert differing([(name, KINDS[name]) for name in chosen], calls) == []
