"""Decorators applied in captured code, contexts among them; texts that are known are computed at once."""

import contextlib
import functools
import inspect
import math
import os
import pathlib
import re

import pytest
import torch

import capture

WEIGHT = torch.nn.Parameter(torch.ones(3))


def scaled(by):
    def decorate(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs) * by

        return inner

    return decorate


def decorates(a):
    @scaled(3)
    def inner(t: torch.Tensor, more=1) -> torch.Tensor:
        """Adds."""
        return t + more

    twice = scaled(2)(inner)
    return twice(a), twice.__name__, twice.__doc__, twice.__wrapped__ is inner, scaled(2)(scaled).__qualname__


def without_gradients(a):
    @torch.no_grad()
    def one(t):
        return t * WEIGHT

    @torch.no_grad
    def other(t):
        return t + WEIGHT

    @torch.inference_mode()
    def third(t):
        return t - 1

    return one(a), other(a), third(a).is_inference(), torch.enable_grad()(lambda t: t * WEIGHT)(a)


def on_a_stack(a):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        b = a * WEIGHT
    return b, a * WEIGHT


def of_texts(a):
    found = re.match(r"layers\.(\d+)", f"layers.{a.dim()}.weight")
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    parts = len(os.path.join("a", "b")) + len(re.sub("x", "yy", "axa"))
    return a * int(found.group(1)) + parts if version >= (2, 0) and torch.__version__ >= "2.0" else a


def asks_for_a_signature(a):
    def scale(t, *, by: float = 2.0, more=None):
        return t * by if more is None else a

    given = {"by": 3.0, "other": 1}
    parameters = inspect.signature(scale).parameters
    known = {name: value for name, value in given.items() if name in parameters}
    return scale(a, **known), str(inspect.signature(scale)), len(str(pathlib.Path("a") / "b"))


def finite(a):
    b = a * 2
    if not math.isfinite(b.sum().item()):
        raise ValueError("not finite")
    return b


@pytest.mark.parametrize("function", [decorates, without_gradients, on_a_stack, of_texts, asks_for_a_signature, finite])
def test_is_one_graph(check, x, function):
    check(function, x)


def test_a_check_of_a_number_raises_as_in_cpython(check, x):
    check(finite, (x + 1) * math.inf)


def test_a_decorated_function_that_is_returned(same, x):
    def make(a):
        @scaled(3)
        def inner(t: torch.Tensor) -> torch.Tensor:
            return t

        return a + 1, inner

    result, inner = capture.optimize("eager", strict=True)(make)(x)
    same(result, x + 1)
    same(inner(x), x * 3)
    assert inner.__annotations__ == {"t": torch.Tensor, "return": torch.Tensor}
    assert (inner.__name__, inner.__wrapped__.__name__) == ("inner", "inner")


def test_a_context_that_lives_across_a_break(check, x):
    def later(a):
        context = torch.no_grad()
        b = a + 1
        capture.graph_break()
        with context:
            b = b * WEIGHT
        return b, a * WEIGHT

    check(later, x, graphs=2, breaks=1)


def test_a_descriptor_is_handed_on_as_itself(check, x):
    class Held:
        @functools.singledispatchmethod
        def kind(self, given):
            return "any"

        @kind.register(int)
        def _(self, given):
            return "int"

    check(lambda a: (a + 1, Held().kind(0)), x, breaks=1)  # over the keys that its registry holds weakly


def test_wrappers_share_annotations_and_partials_of_partials_are_one(check, x):
    def made(a):
        def inner(t: int):
            return t

        @functools.wraps(inner)
        def outer(*args):
            return inner(*args)

        nested = functools.partial(functools.partial(outer, a))
        return a + 1, outer.__annotations__ is inner.__annotations__, nested.func is outer

    check(made, x)


NAMES = ("__module__", "__doc__", "__name__", "__wrapped__", "args", "keywords", "hung", "__class__")


def test_a_partial_is_asked_what_it_is(check, x):
    def scale(a, by=1):
        """Times."""
        return a * by

    plain, named = functools.partial(scale, by=3), functools.update_wrapper(functools.partial(scale), scale)
    named.hung = 7

    def asked(a, given):
        made = functools.partial(scale, by=a)
        of_made = [getattr(made, name, "none") for name in NAMES if name not in ("args", "keywords")]
        return given(a), [getattr(given, name, "none") for name in NAMES], made(a), of_made[:4]

    for given in (plain, named):
        check(asked, x, given)


def test_what_comes_to_hang_on_a_partial_is_seen(x):
    given = functools.partial(torch.mul, other=2)
    captured = capture.optimize("eager", nopython=True)(lambda a: (given(a), given.__module__, hasattr(given, "hung")))
    for name, value in ((None, None), ("hung", 1), ("__module__", "mine"), ("__module__", "another")):
        if name is not None:
            setattr(given, name, value)
        assert captured(x)[1:] == (given.__module__, hasattr(given, "hung"))


def changed_beforehand(a, given, keywords):
    keywords["other"] = 3
    return given(a)


def changed_in_between(a, given, keywords):
    before = given(a)
    keywords["other"] = before.sum()
    return before, given(a), given.keywords is keywords


def one_more(a, given, keywords):
    given.keywords["alpha"] = 5
    return given(a), keywords.pop("alpha"), given(a), dict(keywords)


def nothing_left(a, given, keywords):
    keywords.clear()
    return given(a)


@pytest.mark.parametrize("change", [changed_beforehand, changed_in_between, one_more, nothing_left])
def test_the_keywords_of_a_partial_are_a_dict_that_others_have(check, x, change):
    def program(a, given):
        return change(a, given, given.keywords)

    check(program, x, functools.partial(torch.add, other=2), graphs=None, breaks=None)
    # By another path, in three calls, and with another number in between.
    captured = capture.optimize("eager")(change)
    for other in (2, 2, 4):
        ours, theirs = functools.partial(torch.add, other=other), functools.partial(torch.add, other=other)
        assert str(outcome(captured, x, ours)) == str(outcome(change, x, theirs))
        assert str(ours.keywords) == str(theirs.keywords)


def outcome(change, x, given):
    try:
        return change(x, given, given.keywords)
    except TypeError as error:
        return str(error)
