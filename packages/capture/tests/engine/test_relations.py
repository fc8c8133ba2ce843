"""What has to hold between several values: which are one object, and arithmetic on them."""

import pytest
from arithmetic_of_guards import OF_TWO
from engine_under_test import Guards
from hypothesis import given
from hypothesis import strategies as st

OBJECTS = [object() for _ in range(300)]


def relating(count, *relations):
    """Guards that keep the items of the first argument in as many slots, for relations that are asked of them."""
    nodes = tuple((("item", i), (("keep", 0, i),), ()) for i in range(count))
    return Guards((("arg", 0), (), nodes), relations)


def distinct(count, first):
    return relating(count, ("distinct", 7, tuple(range(count)), first, None))


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=9).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(0, len(n)))
    )
)
def test_the_first_are_different_from_each_other_and_from_the_rest(case):
    numbers, first = case
    items = [OBJECTS[number] for number in numbers]
    expected = all(a is not b for i, a in enumerate(items[:first]) for b in items[i + 1 :])
    assert distinct(len(items), first).check(None, (items,)) == expected


@pytest.mark.parametrize("count", [2, 3, 100, 300])
def test_many_objects_are_compared_at_once(count):
    guards = distinct(count, count)
    items = OBJECTS[:count]
    assert guards.check(None, (items,))
    assert guards.first_failure(None, ([*items[:-1], items[0]],)) == 7


def test_the_rest_may_be_one_object():
    one, other = OBJECTS[:2]
    assert distinct(4, 1).check(None, ([one, other, other, other],))
    assert not distinct(4, 1).check(None, ([one, other, other, one],))


def test_the_same_object():
    guards = relating(3, ("same", 5, (0, 2), None, None))
    assert guards.check(None, ([OBJECTS[0], OBJECTS[1], OBJECTS[0]],))
    assert guards.first_failure(None, ([OBJECTS[0]] * 2 + [OBJECTS[1]],)) == 5


def test_a_value_that_is_missing_fails_the_relation():
    assert distinct(3, 3).first_failure(None, (OBJECTS[:2],)) == 0


def test_values_are_made_once_and_live_until_the_answer():
    class Makes:
        @property
        def fresh(self):
            return object()

    nodes = tuple((("arg", 0), (), ((("attr", "fresh"), (("keep", 0, i),), ()),)) for i in range(50))
    guards = Guards((("root",), (), nodes), (("distinct", 0, tuple(range(50)), 50, None),))
    assert guards.check(None, (Makes(),))


class Part:
    """An instance with a dict."""

    def __init__(self, **parts):
        vars(self).update(parts)


def attribute(name, *below, keep=None):
    return (("dict",), (), ((("key", name), () if keep is None else (("keep", 0, keep),), below),))


def test_values_below_a_chain_are_kept_too():
    model = Part(**{f"part{i}": Part(held=OBJECTS[i]) for i in range(20)})
    parts = tuple(attribute(f"part{i}", attribute("held", keep=i)) for i in range(20))
    guards = Guards((("arg", 0), (), parts), (("distinct", 3, tuple(range(20)), 20, None),))
    for _ in range(4):
        assert guards.check(None, (model,))
    assert guards.followed > 0
    model.part3.held = OBJECTS[7]
    assert guards.first_failure(None, (model,)) == 3
    assert not guards.check(None, (model,))
    model.part3.held = OBJECTS[3]
    assert all(guards.check(None, (model,)) for _ in range(4))


def condition(name, wanted):
    """Whether what ``name`` makes of two numbers is ``wanted``; 77 is said where the engine cannot tell."""
    program = (("number", 0, 0), ("number", 1, 0), (name, 0, 0), ("constant", 0, wanted), ("equal", 0, 0))
    return relating(2, ("condition", 77, (0, 1), program, None))


@pytest.mark.parametrize("name", OF_TWO)
@given(st.integers(-40, 40), st.integers(-40, 40))
def test_arithmetic_is_that_of_python(name, left, right):
    if right == 0 and name in ("divide", "remainder"):
        return
    wanted = int(OF_TWO[name](left, right))
    assert condition(name, wanted).check(None, ([left, right],))
    assert not condition(name, wanted + 1).check(None, ([left, right],))


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [("divide", 1, 0), ("remainder", 1, 0), ("multiply", 2**40, 2**40), ("add", 2**62, 2**62), ("add", 2**70, 1),
     ("divide", -(2**63), -1), ("add", True, 1), ("add", 1.0, 1)],
)  # fmt: skip
def test_what_does_not_fit_is_left_to_python(name, left, right):
    asked = []
    program = (("number", 0, 0), ("number", 1, 0), (name, 0, 0))
    guards = relating(2, ("condition", 0, (0, 1), program, lambda function, *args: asked.append(args) or True))
    assert guards.check(None, ([left, right],))
    assert asked == [([left, right],)]


@pytest.mark.parametrize(
    ("relation", "says"),
    [
        (("distinct", 0, (0, 9), 1, None), "no check keeps a value in slot 9"),
        (("distinct", 0, (0, 1), 3, None), "3 of 2 slots"),
        (("nothing", 0, (0, 1), 1, None), "unknown relation"),
        (("relation", 0, (), None, 3), "left to a callable"),
        (("memory", 0, (0, 1), ((4, -1, 0),), None), "as many tuples"),
        (("condition", 0, (0,), (("number", 1, 0),), None), "reads what is not there"),
        (("condition", 0, (0,), (("add", 0, 0),), None), "takes more than there is"),
        (("condition", 0, (0,), (("number", 0, 0),) * 40, None), "leaves more than one"),
        (("condition", 0, (0,), (), None), "leaves more than one"),
        (3, "a relation is a tuple"),
    ],
)
def test_what_cannot_be_asked_is_an_error(relation, says):
    with pytest.raises((ValueError, TypeError), match=says):
        relating(2, relation)
