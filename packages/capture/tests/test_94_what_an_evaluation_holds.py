"""Once a frame was evaluated nothing of it is held: neither by what was made of it, nor in a cycle."""

import gc
import weakref
from collections import OrderedDict

import pytest

import capture


@pytest.fixture(autouse=True)
def uncollected():
    """What goes, goes because nobody holds it: capture itself keeps nothing in a cycle until a collection comes."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Plain:
    pass


def kept_in_a_generator(held):
    return sum(len([each]) for each in [held])


def raised_and_handled_across_a_break(held):
    try:
        raise ValueError(held)
    except ValueError as error:
        print(end="")
        return str(error)


def put_among_the_global_names(held):
    global _last
    _last = held
    del _last


def counted_in_a_loop(held):
    counts = []
    for i in range(5):
        counts.append(i)
        print(end="")
    return [held]


class Filled(OrderedDict):
    """An object with contents of its own."""


def looked_at_beside_what_it_contains(held):
    container = Filled(key=held)
    container.name = "name"
    print(end="")
    return container.name


def kept_by_an_object_that_keeps_itself(held):
    made = Plain()
    made.itself, made.held = made, held
    count = len(vars(made))
    made.itself = None
    return count


HOLDING = (
    kept_in_a_generator,
    raised_and_handled_across_a_break,
    put_among_the_global_names,
    counted_in_a_loop,
    looked_at_beside_what_it_contains,
    kept_by_an_object_that_keeps_itself,
)


def holds_nothing(function, **options):
    captured = capture.optimize("eager", options=capture.Options(strict=True, **options))
    held = Plain()
    gone = weakref.ref(held)
    captured(function)(held)
    del held
    assert gone() is None


@pytest.mark.without_graphs("what was evaluated computes nothing, and CPython runs it")
@pytest.mark.parametrize("idle_instructions", [None, 20_000])
@pytest.mark.parametrize("function", HOLDING)
def test_an_evaluation_holds_nothing_once_it_is_over(function, idle_instructions):
    holds_nothing(function, idle_instructions=idle_instructions)


@pytest.mark.parametrize("function", HOLDING)
def test_what_was_made_of_an_evaluation_holds_nothing(function):
    holds_nothing(function, leave_idle=False)


@pytest.mark.without_graphs("what computes nothing is left to CPython")
def test_evaluating_what_computes_nothing_leaves_nothing_to_collect():
    def play(a):
        print(end="")
        return [a, len(a)]

    captured = capture.optimize("eager")(play)
    capture.optimize("eager")(play)("what is imported and made once")
    gc.collect()
    captured("text")
    assert gc.collect() == 0
