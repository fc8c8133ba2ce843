"""What the code of large libraries does between its tensor operations."""

import collections
import contextvars
import copy
import functools
import inspect
import itertools
import json
import logging
import math
import numbers
import operator
import os
import random
import sys
import sysconfig
import time
import types
import typing
from unittest import mock

import numpy
import pytest
import torch

import capture

LEVEL = contextvars.ContextVar("level", default=1.0)
UNSET = contextvars.ContextVar("unset")
LOGGER = logging.getLogger("a library's")
OLD_LIST = typing.List  # noqa: UP006 - as libraries write it


@pytest.fixture
def level():
    token = LEVEL.set(2.0)
    yield LEVEL
    LEVEL.reset(token)


def test_a_context_variable_is_read_and_guarded(level, x):
    region = capture.optimize("eager", strict=True)(lambda x: x * LEVEL.get())
    assert torch.equal(region(x), x * 2)
    LEVEL.set(3.0)
    assert torch.equal(region(x), x * 3)


def test_a_context_variable_without_a_value(check, x):
    check(lambda x: x * UNSET.get(4.0), x)
    check(lambda x: x * UNSET.get(), x, graphs=0)


def test_what_is_set_stays_set_and_what_is_reset_does_not(level, x):
    def switch(x):
        token = LEVEL.set(5.0)
        inside = x * LEVEL.get()
        LEVEL.reset(token)
        after = x * LEVEL.get()
        LEVEL.set(7.0)
        return inside, after

    inside, after = capture.optimize("eager", nopython=True, strict=True)(switch)(x)
    assert torch.equal(inside, x * 5)
    assert torch.equal(after, x * 2)
    assert LEVEL.get() == 7.0


def test_a_token_lives_across_a_break(check, level, x):
    def switch(x):
        token = LEVEL.set(5.0)
        capture.graph_break()
        inside = x * LEVEL.get()
        LEVEL.reset(token)
        return inside, x * LEVEL.get()

    check(switch, x, graphs=2, breaks=2)


def test_a_token_is_another_one_every_time(level, x):
    def inner(x, token):
        return x + 1 if token is not None else x

    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(inner)
    for value in (1.0, 2.0, 3.0):
        token = LEVEL.set(value)
        region(x, token)
        LEVEL.reset(token)
    assert not [record for record in log.records() if isinstance(record, capture.RecompileRecord)]


CALLS = []


@functools.lru_cache
def remembered(n):
    CALLS.append(n)
    return [n * 2.0]


@functools.cache
def of_tensor(x):
    return x + 1


def test_a_memoised_function_runs_once_and_gives_one_object(x):
    def use(x):
        remembered(3).append(1.0)
        return x * remembered(3)[0], remembered(3)

    CALLS.clear()
    remembered.cache_clear()
    result, kept = capture.optimize("eager", strict=True)(use)(x)
    assert CALLS == [3]
    assert torch.equal(result, x * 6)
    assert kept is remembered(3)
    assert kept == [6.0, 1.0]


def test_a_memoised_method_changes_its_object_once(x):
    class Counting:
        count = 0

        @functools.lru_cache(None)
        def counted(self, by):
            self.count += by
            return self.count

    def play(counting, a):
        counting.count += 1
        b = a * counting.count
        return b + counting.counted(10), counting.count

    captured = capture.optimize("eager", strict=True)(play)
    for known, other in ((Counting(), Counting()), (Counting(), Counting())):
        for _ in range(2):
            expected, actual = play(known, x), captured(other, x)
            assert torch.equal(actual[0], expected[0])
            assert actual[1] == expected[1]


@functools.cache
def warn_once(logger, text):
    logger.warning(text)


def test_a_memoised_warning_of_a_logger_is_given_once_and_costs_no_graph(x, caplog):
    def play(a):
        warn_once(LOGGER, "slow")
        return torch.stack(torch.jit.annotate(OLD_LIST[torch.Tensor], [a + 1]))

    captured = capture.optimize("eager", strict=True, nopython=True)(play)
    for _ in range(2):
        assert torch.equal(captured(x), play(x))
    assert [record.message for record in caplog.records if record.name == LOGGER.name] == ["slow"]


def test_a_memoised_function_of_a_tensor_is_called(check, x):
    check(lambda x: of_tensor(x) * 2, x, graphs=2, breaks=1)


def test_memoised_functions_count_hits_and_misses_as_in_eager(x):
    def use(x, k):
        return x * remembered(k)[0] + remembered(k)[0]

    seen = []
    for function in (use, capture.optimize("eager", strict=True)(use)):
        CALLS.clear()
        remembered.cache_clear()
        results = [function(x, k).tolist() for k in (1, 1, 2, 3, 1)]
        remembered.cache_clear()
        results.append(function(x, 1).tolist())
        seen.append((results, remembered.cache_info(), list(CALLS)))
    assert seen[0] == seen[1]


def scaled(x, mask):
    if mask.all():
        return x + 1
    return torch.where(mask, x, x * 2)


def test_a_branch_on_a_mask_is_a_guard_and_no_break(x):
    log = capture.Log()
    region = capture.optimize("eager", nopython=True, strict=True, log=log)(scaled)
    some = torch.tensor([True, False, True])
    for mask in (torch.ones(3, dtype=torch.bool), some, torch.ones(3, dtype=torch.bool), some.clone()):
        assert torch.equal(region(x, mask), scaled(x, mask))
    assert len([record for record in log.records() if isinstance(record, capture.GraphRecord)]) == 2


def test_a_branch_on_a_mask_that_changed_inside_is_a_break(check, x):
    def change(x, mask):
        mask[0] = False
        return scaled(x, mask)

    check(change, x, torch.ones(3, dtype=torch.bool), graphs=2, breaks=1)


def test_a_branch_on_data_is_a_break(check, x):
    check(lambda x: x + 1 if x.sum() > 0 else x, x, breaks=1, graphs=2)


class Settings:
    def __init__(self):
        self.names = ["a", "b"]
        self.inner = {"c": (1, 2)}


def test_copies(check, x):
    def copies(x, settings):
        deep, shallow = copy.deepcopy(settings), copy.copy(settings)
        deep.names.append("c")
        deep.inner["d"] = x
        shallow.extra = 1
        return x * len(settings.names), len(deep.names), shallow.names is settings.names

    check(copies, x, Settings())


def test_copies_of_what_cannot_change(check, x):
    held = frozenset([Settings()])

    def copies(x, inner):
        same = copy.copy((1, 2, 3)), (1, [2]), copy.deepcopy(inner) is inner, copy.copy(inner) is inner
        deep = copy.deepcopy(held)
        return x + 1, same, deep is held, next(iter(deep)) is next(iter(held))

    check(copies, x, (1, "text"))


def test_a_deep_copy_of_what_leads_back_to_itself(check, x):
    def around(x):
        ring = Settings()
        ring.me = ring
        other = copy.deepcopy(ring)
        return x + 1, other.me is other, other is ring

    check(around, x)


class Exchanging:
    """Puts lists in the places of others that were copied already."""

    def __init__(self, items):
        self.items = items

    def __deepcopy__(self, memo):
        for place in range(20):
            self.items[place] = None
        for place in range(21, 41):
            self.items[place] = [place]
        return 0


def test_a_deep_copy_takes_no_object_for_one_that_is_gone(check, x):
    def exchanged(x):
        items = [[place] for place in range(20)] + [None] * 21
        items[20] = Exchanging(items)
        return x + 1, copy.deepcopy(items)

    check(exchanged, x)


def test_signatures(check, x):
    def scale(value, factor=2.0, *, bias=0.0):
        return value * factor + bias

    def call(x):
        options = {name: 3.0 for name in inspect.signature(scale).parameters if name == "factor"}
        return scale(x, **options) * len(inspect.signature(scale).parameters)

    check(call, x)


def test_numpy_functions_of_numbers_and_numpy_floats(check, x):
    check(lambda x, n: x * numpy.sqrt(n) + math.sqrt(n), x, 16)


def test_in_place_operators_on_numbers(check, x):
    def count(x):
        total = 0
        total += x
        return total

    check(count, x)


def test_slices_of_module_lists(x):
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(4))

    def run(x):
        for layer in layers[1:3]:
            x = layer(x)
        return x, len(layers[:-1])

    plain, captured = run(x), capture.optimize("eager", nopython=True, strict=True)(run)(x)
    assert torch.equal(plain[0], captured[0])
    assert plain[1] == captured[1]


def test_installed_packages_are_not_told_that_they_are_captured(tmp_path, x):
    source = "import torch\ndef scaled(x):\n    return x * (2 if torch.compiler.is_compiling() else 3)\n"
    module = {}
    path = sysconfig.get_paths()["purelib"] + "/some_library.py"
    exec(compile(source, path, "exec"), module)
    mine = {}
    exec(compile(source, str(tmp_path / "mine.py"), "exec"), mine)
    assert torch.equal(capture.optimize("eager")(lambda x: module["scaled"](x))(x), x * 3)
    assert torch.equal(capture.optimize("eager")(lambda x: mine["scaled"](x))(x), x * 2)


class Finder:
    """Finds nothing, by code that capture cannot evaluate whole."""

    def find_spec(self, name, path=None, target=None):
        return [None, "{name}".format(**locals())][0]


def test_what_runs_while_something_is_imported_is_not_compiled(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("import torch\ndef made():\n    return torch.ones(2) + 1\nX = made()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "imported_late", raising=False)
    known = len(capture.records())
    module = capture.optimize("eager")(imports_late)()
    assert module.X.tolist() == [2, 2]
    assert not [each for each in capture.records()[known:] if "made" in str(each) or "find_spec" in str(each)]


def imports_late():
    import imported_late

    return imported_late


def of_a_module(x):
    import settings_of_a_test

    return x * settings_of_a_test.FACTOR


def of_a_name(x):
    from settings_of_a_test import FACTOR

    return x * FACTOR


def of_a_part(x):
    import settings_of_a_test.part as part

    return x * part.FACTOR


@pytest.mark.parametrize("program", [of_a_module, of_a_name, of_a_part])
def test_a_module_that_is_replaced_is_imported_anew(program, monkeypatch):
    compiled = capture.optimize("eager")(program)
    for factor in (2, 7, 2):
        package, part = (types.ModuleType(f"settings_of_a_test{end}") for end in ("", ".part"))
        package.FACTOR = part.FACTOR = factor
        package.part, package.__path__ = part, []
        for module in (package, part):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        assert compiled(torch.ones(1)).item() == factor


REPLACED = {
    "math.sqrt": (lambda x: x * math.sqrt(4), lambda *_: 1000.0),
    "time.time": (lambda x: x * (time.time() < 5), lambda: 1.0),
    "os.path.exists": (lambda x: x * os.path.exists("/"), lambda _: False),
    "random.random": (lambda x: x * (random.random() > 5), lambda: 9.0),
    "operator.mul": (lambda x: operator.mul(x, 2), lambda a, _: a * 1000),
    "itertools.chain": (lambda x: x * sum(itertools.chain([1], [2])), lambda *_: [1000]),
    "collections.OrderedDict": (lambda x: x * len(collections.OrderedDict(a=1)), lambda **_: [1] * 50),
    "copy.copy": (lambda x: x * len(copy.copy([1])), lambda _: [1] * 50),
    "json.dumps": (lambda x: x * len(json.dumps([1])), lambda _: "a" * 50),
    "numbers.Number": (lambda x: x * (2 if isinstance(3, numbers.Number) else 3), str),
    "torch.finfo": (lambda x: x * torch.finfo(torch.float32).bits, lambda _: types.SimpleNamespace(bits=5)),
    "torch.sin": (lambda x: torch.sin(x), lambda a: a * 1000),
}


def before_meanwhile_and_after(function, name, other):
    found = [function(torch.ones(2))]
    with mock.patch(name, other):
        found.append(function(torch.ones(2)))
    return [*found, function(torch.ones(2))]


@pytest.mark.parametrize("name", REPLACED)
def test_a_function_that_is_replaced_for_a_while_is_called(name):
    program, other = REPLACED[name]
    expected = before_meanwhile_and_after(program, name, other)
    torch.testing.assert_close(before_meanwhile_and_after(capture.optimize("eager")(program), name, other), expected)
