"""What guards say, in explanations and where they fail."""

import pytest
import torch

import capture
from capture.entry.cache import CodeState, too_many
from capture.errors import Location
from capture.guards.guard import Guard
from capture.guards.sources import ArgSource


def test_a_dict_keyed_by_tensors_is_said_without_their_numbers():
    keys = tuple(torch.full((2,), 12345.0) for _ in range(5))
    sentence = Guard(ArgSource(0, "state"), "keys", (keys,)).sentence()
    assert sentence.startswith("state has the keys (float32 tensor of shape (2) on cpu, ")
    assert "12345" not in sentence


def made(name):
    return type(name, (), {"held": 1})


def function():
    return eval("lambda x: x + 1")


def reads(it, x):
    return x + it.held


def calls(it, x):
    return it(x)


def asks(it, x):
    return x + (it is len)


@pytest.mark.parametrize(
    ("make", "use", "said"),
    [
        (lambda: made("Foo")(), reads, "it is a Foo, but it is of another class of the same name"),
        (lambda: made("Foo"), reads, "it is the same object: Foo, but it is another class of the same name"),
        (function, calls, "it.__code__ is the same object: a code, but it is that of `<lambda>`, made at line 1"),
        (
            function,
            asks,
            "it is the same object: <lambda>, but it is another function of the same name, made at line 1",
        ),
        (object, asks, "it is the same object: a object, but it is another object of class `object`"),
    ],
)
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_what_the_same_words_describe_is_told_apart_and_once(make, use, said):
    log, x = capture.Log(), torch.ones(2)
    captured = capture.optimize("eager", log=log, recompile_limit=3)(use)
    kept = [make() for _ in range(6)]
    for it in kept:
        captured(it, x)
    (left,) = [record for record in log.records() if isinstance(record, capture.FallbackRecord)]
    assert left.reason.explanation.count("expected that") == 1
    assert f"expected that {said} (assumed at " in left.reason.explanation


def test_a_reason_is_listed_once_wherever_it_was_assumed():
    state = CodeState(reasons=[f"expected that a is a B (assumed at f.py:{line}: a)" for line in (1, 2)])
    assert too_many(Location("f.py", 1, "f"), state, 8).reason.explanation.count("expected that") == 1
