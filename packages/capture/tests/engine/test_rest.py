"""Calls that are left to whoever entered the function."""

import gc
import sys
import weakref

import pytest
from engine_under_test import SKIP_ONCE, Region, rest, set_translator


class Thing:
    pass


@pytest.fixture(autouse=True)
def only_what_is_left():
    set_translator(lambda *call: SKIP_ONCE)


def finish(left):
    return Region(lambda: left, object())()


def test_calls_are_done_until_there_is_a_result():
    def count(n):
        return n if n == 5000 else rest(count, n + 1)

    assert Region(count, object())(0) == 5000
    assert finish("a result") == "a result"


def test_what_is_raised_leaves():
    with pytest.raises(ZeroDivisionError):
        finish(rest(lambda a: a / 0, 1))
    with pytest.raises(TypeError):
        finish(rest(lambda: 0, 1))


def test_the_frame_that_left_it_is_gone():
    def names():
        frame = sys._getframe()
        return [frame.f_code.co_name, frame.f_back.f_code.co_name, frame.f_back.f_back.f_code.co_name]

    def inner():
        return rest(names)

    def outer():
        return inner()

    assert Region(outer, object())() == ["names", "outer", "test_the_frame_that_left_it_is_gone"]


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
        return rest(call, Thing())

    Region(region, object())()
    assert seen == [True]


def test_a_rest_in_a_cycle_is_collected():
    thing = Thing()
    thing.rest = rest(print, thing)
    watch = weakref.ref(thing)
    del thing
    gc.collect()
    assert watch() is None
