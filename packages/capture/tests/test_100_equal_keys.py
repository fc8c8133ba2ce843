"""Keys that are equal and not the same (1, True, 1.0; 0, -0.0): which one a set or a dict keeps."""

import collections
import itertools

import pytest
import torch

import capture

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
