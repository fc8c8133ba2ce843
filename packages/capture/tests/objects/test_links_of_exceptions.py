"""What an exception follows from: cause, context and whether it is shown, of those that are made in the function and of
those from outside, as seen inside and by who holds them afterwards."""

import itertools
import os
import random

import pytest
import torch
from what_is_seen import differing, outcome, seen

RAISES = {
    "plain": "raise E",
    "from None": "raise E from None",
    "from another": "raise E from other",
    "from itself": "raise E from E",
    "from a new one": "raise E from TypeError('cause')",
    "without traceback": "raise E.with_traceback(None)",
    "cause set": "E.__cause__ = other; raise E",
    "cause taken": "E.__cause__ = None; raise E",
    "context taken": "E.__context__ = None; raise E",
    "hidden": "E.__suppress_context__ = True; raise E",
    "shown": "E.__cause__ = other; E.__suppress_context__ = False; raise E",
    "traceback taken": "E.__traceback__ = None; raise E",
    "no bool": "E.__suppress_context__ = 1; raise E",
    "no cause": "E.__cause__ = 1; raise E",
    "no context": "E.__context__ = 'x'; raise E",
    "class": "raise type(E)",
    "in a function": "throw(E)",
}
PLACES = {
    "alone": ["RAISE"],
    "while one is handled": ["try: raise LookupError('first')", "except LookupError: RAISE"],
    "while another is handled": ["try: raise other", "except Exception: RAISE"],
    "while itself is handled": ["try: raise E", "except Exception: RAISE"],
    "while a division is handled": ["try: 1 // 0", "except ZeroDivisionError: RAISE"],
    "in a finally": ["try: raise other", "finally: RAISE"],
    "two deep": [
        "try: raise LookupError('first')",
        "except LookupError:",
        "    try: raise other",
        "    except Exception: RAISE",
    ],
    "after one was handled": ["try: raise other", "except Exception: pass", "RAISE"],
    "in a with": ["with Raising(other): RAISE"],
}
ERRORS = {"new": "ValueError('new')", "argument": "err", "global": "ERR"}
CATCHES = {
    "caught": ["except Exception as e:", "    return x, fields(e), fields(e.__context__), fields(e.__cause__)"],
    "let through": ["finally:", "    x = x + 1"],
    "raised again": ["except Exception as e:", "    x = x + len(fields(e))", "    raise"],
}


class Raising:
    def __init__(self, error):
        self.error = error

    def __enter__(self):
        return self

    def __exit__(self, *found):
        raise self.error


def throw(error):
    raise error


def fields(e):
    if not isinstance(e, BaseException):
        return e
    return [type(e), repr(e.__cause__), repr(e.__context__), e.__suppress_context__, e.__traceback__ is None]


def text_of(error, place, raises, catch):
    lines = [line.replace("RAISE", RAISES[raises]) for line in PLACES[place]]
    body = "\n".join(f"        {line}" for line in [f"E = {ERRORS[error]}", *lines])
    caught = "\n".join(f"    {line}" for line in CATCHES[catch])
    return f"def f(x, err, other):\n    x = x * 2\n    try:\n{body}\n{caught}\n    return x"


def errors(call):
    """Two exceptions from outside, alone or in a chain."""
    err, other = KeyError("err"), TypeError("other")
    if call in (1, 4):
        err.__context__ = OSError("old")
    if call == 2:
        other.__context__ = err
    if call == 3:
        other.__context__ = OSError("between")
        other.__context__.__context__ = err
        err.__suppress_context__ = True
    return err, other


EVERY = list(itertools.product(ERRORS, PLACES, CATCHES))


@pytest.mark.without_graphs("whom the program's errors leave is CPython's", cases="some")
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
@pytest.mark.parametrize("raises", RAISES)
def test_links_of_exceptions(raises):
    """A fourth of all programs, drawn anew in each run; all of them with ``SWEEPS=all``."""

    def calls(compiled, case):
        error, place, catch = case
        scope = {"Raising": Raising, "throw": throw, "fields": fields}
        exec(text_of(error, place, raises, catch), scope)
        function, found = compiled(scope["f"]), []
        for call in (0, 0, 1, 2, 3, 0):
            err, other = errors(call)
            scope["ERR"] = err
            found.append((outcome(function, torch.ones(1), err, other), seen(err), seen(other)))
        return found

    chosen = EVERY if os.environ.get("SWEEPS") == "all" else random.sample(EVERY, len(EVERY) // 4)
    assert differing((((*case,), case) for case in chosen), calls) == []


def within(x, err):
    """Called while the caller handles something."""
    x = x + 1
    try:
        raise err
    except Exception as e:  # noqa: BLE001
        return x, repr(e.__context__), e.__suppress_context__


@pytest.mark.parametrize("make", [lambda: KeyError("k"), lambda: None])
@pytest.mark.without_graphs("what the caller handles is CPython's to say", cases="some")
def test_what_the_caller_handles_is_the_context(make):
    def call(function, err):
        try:
            raise LookupError("first")
        except LookupError:
            return function(torch.ones(1), err)

    def calls(compiled, _):
        function = compiled(within)
        return [
            outcome(call, function, make()),
            outcome(function, torch.ones(1), make()),
            outcome(call, function, make()),
        ]

    assert differing([("within", None)], calls) == []
