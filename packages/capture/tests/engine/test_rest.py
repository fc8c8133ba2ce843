"""Calls that are left to whoever entered the function."""

import gc
import weakref

import pytest
from engine_under_test import SKIP_ONCE, Region, finish, rest, set_translator


class Thing:
    pass


def test_calls_are_done_until_there_is_a_result():
    def count(n):
        return n if n == 5000 else rest(count, n + 1)

    assert finish(count(0)) == 5000
    assert finish("a result") == "a result"


def test_what_is_raised_leaves():
    with pytest.raises(ZeroDivisionError):
        finish(rest(lambda a: a / 0, 1))
    with pytest.raises(TypeError):
        finish(rest(lambda: 0, 1))


def test_a_rest_is_done_once():
    left = rest(lambda: 3)
    assert finish(left) == 3
    with pytest.raises(RuntimeError, match="done already"):
        finish(left)


def test_arguments_belong_to_the_call_alone():
    seen = []

    def call(thing):
        watch = weakref.ref(thing)
        del thing
        seen.append(watch() is None)

    def region():
        finish(rest(call, Thing()))

    set_translator(lambda *call: SKIP_ONCE)
    Region(region, object())()
    assert seen == [True]


def test_a_rest_in_a_cycle_is_collected():
    thing = Thing()
    thing.rest = rest(print, thing)
    watch = weakref.ref(thing)
    del thing
    gc.collect()
    assert watch() is None
