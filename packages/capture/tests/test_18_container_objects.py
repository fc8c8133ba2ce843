"""Subclasses of the builtin containers, and the live ``__dict__`` of objects."""

import collections
import copy
import dataclasses

import pytest
import torch

import capture


class Doubled(dict):
    """Changes what reading gives, and has an answer for keys that are not there."""

    def __getitem__(self, key):
        return super().__getitem__(key) * 2

    def __missing__(self, key):
        return 7.0


class Stack(list):
    def top(self):
        return self[-1]


class Tagged(collections.OrderedDict):
    """Keeps an attribute for every key, as outputs of transformers do."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@dataclasses.dataclass
class Output(collections.OrderedDict):
    hidden: torch.Tensor = None
    pooled: torch.Tensor = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


def test_an_instance_made_inside_comes_out(check, x):
    check(lambda x: Tagged(a=x + 1, b=x * 2), x)
    check(lambda x: Stack([x, x + 1]), x)
    check(lambda x: Output(hidden=x + 1), x)


def test_methods_of_the_subclass_are_evaluated(check, x):
    check(lambda x, d: d["a"] * x + d["nothing"], x, Doubled(a=3.0))
    check(lambda x, s: s.top() * x, x, Stack([1.0, 2.0]))


def test_methods_of_the_builtin_class_look_past_it(check, x):
    check(lambda x, d: (dict.__getitem__(d, "a") * x, list(d.values()), len(d), d.get("b")), x, Doubled(a=3.0))


def test_changes_of_an_argument_are_made_past_its_methods(check, x):
    def change(x, d, s, t):
        d["new"] = x + 1
        del d["a"]
        s.append(x)
        s[0] = 5
        t["key"] = x * 2
        return d["new"]

    check(change, x, Doubled(a=3.0), Stack([1]), Tagged(old=1))


def test_attributes_and_items_are_both_kept(check, x):
    def fill(x):
        made = Stack([x])
        made.name = "top"
        made.extend([x + 1])
        return made, made.name, made.__dict__

    check(fill, x)


def test_update_goes_where_cpython_goes(check, x):
    """``OrderedDict.update`` calls the subclass's ``__setitem__``; ``dict.update`` does not."""

    def update(x):
        made = Tagged()
        made.update(a=x, b=x + 1)
        return made, made.b

    check(update, x)
    check(lambda x: dict(Doubled(a=x)), x, graphs=0)


def test_unpacking(check, x):
    check(lambda x, d: dict(**d, c=x), x, Tagged(a=1.0), graphs=0)
    check(lambda x, s: [*s, x + 1], x, Stack([1.0]))


@pytest.mark.parametrize("change", [{"a": 4.0}, {"a": 3.0, "b": 1.0}])
def test_other_contents_are_seen(x, change):
    def read(x, d):
        return x * len(d) + dict.__getitem__(d, "a")

    region = capture.optimize("eager", strict=True)(read)
    region(x, Doubled(a=3.0))
    assert torch.equal(region(x, Doubled(change)), read(x, Doubled(change)))


class Holder:
    def __init__(self):
        self.a = 1.0


def test_the_dict_of_an_object_lives(check, x):
    def through(x, holder):
        view = holder.__dict__
        holder.b = x
        view["c"] = x + 1
        del view["a"]
        return list(view), holder.c, hasattr(holder, "a"), vars(holder) is view

    check(through, x, Holder())


def test_the_same_object_on_two_paths_may_be_another_object_next_time(x):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(lambda o: o.hidden + o["hidden"])
    for _ in range(3):
        region(Output(hidden=x.clone()))
    assert not [record for record in log.records() if isinstance(record, capture.RecompileRecord)]
    other = Output(hidden=x.clone())
    collections.OrderedDict.__setitem__(other, "hidden", x * 5)
    assert torch.equal(region(other), x * 6)


def test_attributes_of_an_ordered_dict(check, x):
    def tagged(x, given):
        made = collections.OrderedDict(a=x + 1)
        made.version, given.version = 2, given.version + 1
        given.more = made
        return made, copy.copy(made).version, hasattr(given, "other"), getattr(made, "other", 3), vars(made)["version"]

    given = collections.OrderedDict(b=1)
    given.version = 5
    log = check(tagged, x, given, breaks=1)
    assert [record for record in log.records() if isinstance(record, capture.GraphRecord)]


def test_state_dicts_are_made_inside(x, same):
    """As averages of models do in every step."""

    def average(into, model, decay):
        for name, kept in into.state_dict().items():
            kept.mul_(decay).add_(model.state_dict()[name] * (1 - decay))
        return model.state_dict()._metadata

    log = capture.Log()
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3, track_running_stats=False))
    model.requires_grad_(False)
    plain, captured = copy.deepcopy(model), copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.add_(1)
    region = capture.optimize("eager", strict=True, log=log)(average)
    same(average(plain, model, 0.9), region(captured, model, 0.9))
    same(dict(plain.state_dict()), dict(captured.state_dict()))
    assert [type(record) for record in log.records()] == [capture.GraphRecord]


class Queue(collections.deque):
    pass


class Names(set):
    pass


INTO_ITSELF = {
    list: ("a.extend(a)", "a += a", "a[1:] = a", "a[:] = reversed(a)"),
    collections.deque: ("a.extend(a)", "a += a", "a.extendleft(a)"),
    set: ("a.update(a)", "a |= a", "a -= a", "a.symmetric_difference_update(a)"),
    dict: ("a.update(a)", "a |= a"),
}


@pytest.mark.parametrize("kind", [list, Stack, collections.deque, Queue, set, Names, dict, collections.OrderedDict])
def test_a_container_takes_itself(kind, x):
    """That of a subclass of list was read while it grew, without end."""
    base = next(base for base in INTO_ITSELF if issubclass(kind, base))
    items = {1: 2, 3: 4} if base is dict else [3, 1]
    for statement in INTO_ITSELF[base]:
        played = {}
        exec(f"def play(a, x):\n    {statement}\n    return a, x + 1", played)
        mine, eagers = kind(items), kind(items)
        played["play"](eagers, x)
        assert capture.optimize("eager")(played["play"])(mine, x)[0] is mine
        assert mine == eagers, statement


# -- tuples -----------------------------------------------------------------------------------------------------------
# Subclasses of tuple: their own `__new__` and `__init__` run once, and not again where they are built.

RAN = []
Pair = collections.namedtuple("Pair", "a b")


class ByItems(tuple):
    def __new__(cls, *items):
        RAN.append(("new", len(items)))
        return super().__new__(cls, items)

    def __init__(self, *items):
        RAN.append(("init", len(self)))


class OfTwo(tuple):
    def __new__(cls, a, b):
        return tuple.__new__(cls, (a, b))


class Initialised(tuple):
    def __init__(self, items):
        RAN.append(("init", len(self)))


class Below(Initialised):
    def __init__(self, items):
        super().__init__(items)
        RAN.append("below")


class SomethingElse(tuple):
    def __new__(cls, *items):
        return items

    def __init__(self, *items):
        RAN.append("never")


class Named(Pair):
    def __new__(cls, a):
        RAN.append("new")
        return super().__new__(cls, a, a)


PROGRAMS = {
    "by items": lambda x: ByItems(x, 2),
    "of constants": lambda x: ByItems(1, 2),
    "of two": lambda x: OfTwo(1, x),
    "initialised": lambda x: Initialised([x, 2]),
    "below": lambda x: Below((x,)),
    "something else": lambda x: SomethingElse(x, 1),
    "named": lambda x: Named(x),
    "held over a break": lambda x: (OfTwo(1, x), ByItems(2), print(end="")),
    "sizes": lambda x: (x.size(), torch.Size((1, 2)), x.sort()),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_tuples_are_made_as_in_cpython(program):
    found = []
    function = PROGRAMS[program]
    for called in (function, capture.optimize("eager")(lambda x: (x + 1, function(x))[1])):
        RAN.clear()
        made = called(torch.ones(2))
        found.append((repr(made), type(made), [*RAN]))
    assert found[0] == found[1]
