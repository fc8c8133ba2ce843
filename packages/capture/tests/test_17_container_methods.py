"""Every method of the containers, on the containers and on subclasses of them: what it gives, and what it leaves."""

import collections
import copy
import gc
import itertools
import operator
import types
import weakref

import pytest
import torch

import capture

MADE_OF = {
    list: ([3, 1, 2],),
    collections.deque: ([3, 1, 2], 5),
    dict: ([("a", 1), ("b", 2)],),
    collections.OrderedDict: ([("a", 1), ("b", 2)],),
    set: ([1, 2],),
}
CLASSES = [cls for base in MADE_OF for cls in (base, type(f"Sub{base.__name__}", (base,), {}))]
OPERATIONS = {
    "copy": lambda x: x.copy(),
    "copy.copy": lambda x: copy.copy(x),
    "copy.deepcopy": lambda x: copy.deepcopy(x),
    "a new one": lambda x: type(x)(x),
    "fromkeys": lambda x: type(x).fromkeys("ab"),
    "+": lambda x: x + x,
    "*": lambda x: x * 2,
    "2 *": lambda x: 2 * x,
    "|": lambda x: x | x,
    "| dict": lambda x: x | {"q": 1},
    "dict |": lambda x: {"q": 1} | x,
    "&": lambda x: x & x,
    "|=": lambda x: operator.ior(x, x),
    "+=": lambda x: operator.iadd(x, x),
    "*=": lambda x: operator.imul(x, 2),
    "==": lambda x: x == x.copy(),
    "slice": lambda x: x[0:2],
    "item": lambda x: x[0],
    "set slice": lambda x: operator.setitem(x, slice(0, 1), [5, 6]),
    "delete": lambda x: operator.delitem(x, 0),
    "iter": lambda x: [(item,) for item in x],
    "sorted": lambda x: sorted(x),
    "reversed": lambda x: list(reversed(x)),
    "clear": lambda x: x.clear(),
    "setdefault": lambda x: x.setdefault("c", 3),
    "popitem": lambda x: x.popitem(),
    "pop": lambda x: x.pop(),
    "move_to_end": lambda x: x.move_to_end("a"),
    "move_to_end(first)": lambda x: x.move_to_end("b", False),
    "move_to_end(absent)": lambda x: x.move_to_end("zz"),
    "dict.__delitem__": lambda x: dict.__delitem__(x, "a"),
    "dict.pop": lambda x: dict.pop(x, "a"),
    "dict.setdefault": lambda x: dict.setdefault(x, "c", 3),
    "list.append": lambda x: list.append(x, 4),
    "deque.append": lambda x: collections.deque.append(x, 4),
    "insert": lambda x: x.insert(1, 9),
    "rotate": lambda x: x.rotate(1),
    "remove": lambda x: x.remove(1),
    "index": lambda x: x.index(2),
    "index(absent)": lambda x: x.index(99),
    "count": lambda x: x.count(1),
    "sort": lambda x: x.sort(),
    "reverse": lambda x: x.reverse(),
    "extendleft": lambda x: x.extendleft([7, 8]),
    "maxlen": lambda x: x.maxlen,
    "union": lambda x: x.union([9]),
    "repr": lambda x: repr(x),
}


def told(value):
    try:
        return type(value), repr(value)
    except KeyError as error:  # an OrderedDict changed behind its back
        return type(value), type(error), dict.__repr__(value)


def outcome(function, made):
    try:
        result = told(function(made))
    except Exception as error:  # noqa: BLE001 - the same one as in eager
        result = type(error), str(error)
    return result, told(made)


def captured(function):
    return capture.optimize("eager", options=capture.Options(leave_idle=False, strict=True))(function)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_methods(cls):
    args = next(args for base, args in MADE_OF.items() if issubclass(cls, base))
    for name, operation in OPERATIONS.items():
        on_argument, on_its_own = (lambda x, op=operation: op(x)), (lambda _, op=operation: told(op(cls(*args))))
        for function in (on_argument, on_its_own):
            assert outcome(captured(function), cls(*args)) == outcome(function, cls(*args)), name


@pytest.mark.parametrize("cls", [collections.deque, type("Deque", (collections.deque,), {})])
def test_the_bound_of_a_deque_is_relied_on(cls):
    region = captured(lambda items: (items.maxlen, items.append(9), len(items)))
    assert [region(cls([1, 2], bound)) for bound in (2, 3, None)] == [(2, None, 2), (3, None, 3), (None, None, 3)]


@pytest.mark.parametrize("cls", [list, dict, collections.OrderedDict, collections.deque])
def test_iterators_go_on_while_items_are_assigned(cls):
    held = cls([0, 0, 0]) if cls in (list, collections.deque) else cls.fromkeys(range(3))
    under_way, expected = iter(held), list(range(3)) if hasattr(held, "keys") else [7, 7, 7]

    def assign(items):
        for place in range(3):
            items[place] = 7

    captured(assign)(held)
    assert list(under_way) == expected


@pytest.mark.parametrize("iterate", [lambda items: reversed(collections.deque(items)), zip, itertools.cycle, reversed])
def test_guards_keep_no_iterator_alive(iterate):
    item = type("Item", (), {})()
    gone, holder = weakref.ref(item), types.SimpleNamespace()

    def keep(held, iterator):
        held.iterator = iterator
        return isinstance(iterator, int)

    assert captured(keep)(holder, iterate([item])) is False
    del item, holder
    gc.collect()
    assert gone() is None


# -- equal keys -------------------------------------------------------------------------------------------------------
# Keys that are equal and not the same (1, True, 1.0; 0, -0.0): which one a set or a dict keeps.

KEYS = (1, True, 1.0)
FORMS = {
    "set": lambda x, a, b, c: {a, b, c},
    "set()": lambda x, *keys: set(keys),
    "frozenset()": lambda x, a, b, c: frozenset([a, b, c]),
    "set comprehension": lambda x, *keys: {k for k in keys if k},
    "| of sets": lambda x, a, b, c: {a} | {b, c},
    "& of sets": lambda x, a, b, c: {a, b} & {b, c},
    "- of sets": lambda x, a, b, c: {a, b} - {c},
    "^ of sets": lambda x, a, b, c: {a, b} ^ {c},
    "|= of a set": lambda x, a, b, c: _changed({a}, "__ior__", {b, c}),
    "&= of a set": lambda x, a, b, c: _changed({a, b}, "__iand__", {c, b}),
    "add": lambda x, a, b, c: _changed({a, c}, "add", b),
    "update of a set": lambda x, a, b, c: _changed({a}, "update", [b, c]),
    "dict": lambda x, a, b, c: {a: "a", b: "b", c: "c"},
    "dict()": lambda x, *keys: dict(zip(keys, "abc", strict=True)),
    "dict comprehension": lambda x, a, b, c: {k: n for n, k in enumerate((a, b, c))},
    "| of dicts": lambda x, a, b, c: {a: "a"} | {b: "b", c: "c"},
    "|= of a dict": lambda x, a, b, c: _changed({a: "a"}, "__ior__", {b: "b", c: "c"}),
    "** in a dict": lambda x, a, b, c: {a: "a", b: "b", c: "c"},
    "update of a dict": lambda x, a, b, c: _changed({a: "a"}, "update", {b: "b", c: "c"}),
    "setdefault": lambda x, a, b, c: _changed({a: "a", c: "c"}, "setdefault", b, "b"),
    "fromkeys": lambda x, a, b, c: dict.fromkeys((a, b, c), x.shape[0]),
    "Counter": lambda x, a, b, c: collections.Counter((a, b, c)),
    "OrderedDict": lambda x, a, b, c: collections.OrderedDict([(a, "a"), (b, "b"), (c, "c")]),
    "removed and put back": lambda x, a, b, c: _changed(_changed({a: "a", b: "b"}, "pop", c, None), "setdefault", c, 0),
}


def _changed(it, method, *args):
    getattr(it, method)(*args)
    return it


@pytest.mark.parametrize("form", FORMS)
def test_the_key_that_stays_is_pythons(form):
    function = FORMS[form]
    compiled = capture.optimize("eager")(lambda x, a, b, c: (x + 1, function(x, a, b, c)))
    for keys in itertools.product(KEYS, repeat=3):
        if len({*map(repr, keys)}) > 1:
            capture.reset()
            assert repr(compiled(torch.ones(2), *keys)[1]) == repr(function(torch.ones(2), *keys)), keys


def test_a_literal_of_constants_keeps_the_first():
    assert capture.optimize("eager")(lambda x: (x + 1, [*{1, True}], {True: 0} | {1: 2}))(torch.ones(2))[1:] == (
        [1],
        {True: 2},
    )
