"""Region and Outside: which configuration is active, where, and for how long."""

import functools
import gc
import inspect
import threading
import weakref

import pytest
from engine_under_test import Outside, Region, active_config


def current(*args, **kwargs):
    return active_config()


def test_a_region_makes_its_configuration_active_while_it_runs():
    config = object()
    assert Region(current, config)() is config
    assert active_config() is None


def test_the_configuration_is_restored_after_an_exception():
    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Region(fail, object())()
    assert active_config() is None


def test_inner_regions_hide_outer_ones():
    outer, inner = object(), object()

    def nested():
        return active_config(), Region(current, inner)(), active_config()

    assert Region(nested, outer)() == (outer, inner, outer)


def test_outside_switches_off_and_back_on():
    config = object()

    def around():
        return Outside(current)(), active_config()

    assert Region(around, config)() == (None, config)


def test_outside_of_nothing_just_calls():
    assert Outside(divmod)(7, 2) == (3, 1)


def test_arguments_and_results_pass_through_untouched():
    def echo(*args, **kwargs):
        return args, kwargs

    for wrapped in (Region(echo, object()), Outside(echo)):
        assert wrapped() == ((), {})
        assert wrapped(1, 2, key=3) == ((1, 2), {"key": 3})
        assert wrapped(*range(9), **{"a b": 1}) == (tuple(range(9)), {"a b": 1})


def test_wrappers_bind_as_methods():
    class Owner:
        def method(self, value):
            return self, value, active_config()

        region = Region(method, "on")
        outside = Outside(method)

    owner = Owner()
    assert owner.region(1) == (owner, 1, "on")
    bound = owner.region
    assert bound(2) == (owner, 2, "on")
    assert owner.outside(3) == (owner, 3, None)
    assert Owner.region is Owner.__dict__["region"]


def test_wrappers_wear_the_name_of_what_they_call():
    def documented(a, b=2):
        """Its doc."""

    wrapped = functools.update_wrapper(Region(documented, object()), documented)
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__module__) == ("documented", "Its doc.", __name__)
    assert str(inspect.signature(wrapped)) == "(a, b=2)"
    assert wrapped.function is documented


def test_other_threads_are_not_affected():
    seen = []

    def start_thread():
        thread = threading.Thread(target=lambda: seen.append(active_config()))
        thread.start()
        thread.join()

    Region(start_thread, object())()
    assert seen == [None]


def test_wrappers_can_be_collected_even_from_a_cycle():
    def function():
        pass

    region = Region(function, object())
    region.myself = region
    function.region = region
    reference = weakref.ref(region)
    del region, function
    gc.collect()
    assert reference() is None


def test_a_region_survives_being_dropped_while_it_runs():
    holder = {}

    def drop():
        holder.clear()
        return active_config()

    holder["region"] = Region(drop, "config " + "made here")
    assert holder["region"]() == "config made here"


@pytest.mark.parametrize("make", [lambda: Region(3, object()), lambda: Region(current, None), lambda: Outside(None)])
def test_what_cannot_be_wrapped_is_refused(make):
    with pytest.raises(TypeError):
        make()
