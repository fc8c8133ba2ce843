"""Who is asked for its caller names the one that CPython names, behind breaks too."""

import inspect
import io
import logging
import sys
import textwrap
import traceback
import warnings

import pytest
import torch

import capture

ASKS = {
    "warnings": "warnings.warn('at 1', stacklevel=1); warnings.warn('at 2', stacklevel=2); "
    "warnings.warn('at 3', stacklevel=3)",
    "logging": "said.info('x'); said.info('x', stacklevel=2); said.info('x', stacklevel=3)",
    "names": "found.extend((sys._getframe(0).f_code.co_name, sys._getframe(1).f_code.co_name))",
    "lines": "found.extend((sys._getframe(0).f_lineno, sys._getframe(1).f_lineno, sys._getframe(2).f_lineno))",
    "currentframe": "found.append(inspect.currentframe().f_back.f_code.co_name)",
    "stack": "found.append(inspect.stack(0)[1].function)",
    "traceback": "found.append([at.name for at in traceback.extract_stack()][-3:])",
    "variables": "found.append([sorted(frame.f_locals) for frame in (sys._getframe(), sys._getframe(1))])",
}
BREAKS = {
    "nothing": "pass",
    "print": "print('hi', file=io.StringIO())",
    "logging": "unsaid.info('x')",
    "item": "total = x.sum().item()",
    "a disabled function": "aside(x)",
}
ASKING = """
    more = x + 1
    {breaks}
    {asks}
    return x * 2
"""
PROGRAMS = {
    "the program": "def program(x):" + ASKING,
    "a helper": "def helper(x):" + ASKING + "def program(x):\n    kept = 5\n    y = helper(x)\n    return y + kept",
    "a helper's helper": "def inner(x):"
    + ASKING
    + "def helper(x):\n    y = inner(x)\n    return y * 2\n"
    + "def program(x):\n    kept = 5\n    y = helper(x)\n    return y + kept",
    "a method": "class Thing:\n  def method(self, x):"
    + ASKING
    + "def program(x):\n    thing = Thing()\n    y = thing.method(x)\n    return y, thing",
    "rounds": "def helper(x):\n  for _ in range(2):"
    + ASKING.replace("return x", "x = x")
    + "  return x\ndef program(x):\n    for _ in range(2):\n        x = helper(x)\n    return x",
}


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        self.found.append((record.funcName, record.lineno))


def logger_of(handler):
    logger = logging.Logger(__name__)
    logger.addHandler(handler)
    return logger


@capture.disable
def aside(x):
    return x


def what_is_found(source, wrap):
    lines, found = Lines(), []
    given = {each.__name__: each for each in (aside, inspect, io, sys, traceback, warnings)}
    given |= {"said": logger_of(lines), "unsaid": logger_of(logging.NullHandler()), "found": found}
    exec(compile(source, __file__, "exec"), given)
    program = wrap(given["program"])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            program(torch.ones(2))
    return [(str(each.message), each.filename, each.lineno) for each in warned], lines.found, found


@pytest.mark.parametrize("asks", ASKS)
@pytest.mark.parametrize("where", PROGRAMS)
def test_callers_are_those_of_cpython(where, asks):
    for breaks in BREAKS.values():
        source = textwrap.dedent(PROGRAMS[where].format(breaks=breaks, asks=ASKS[asks]))
        assert what_is_found(source, capture.optimize("eager")) == what_is_found(source, lambda f: f), breaks


def test_a_traceback_has_each_frame_once():
    def fails(x):
        print("hi", file=io.StringIO())
        raise ValueError(x.sum().item())

    def program(x):
        try:
            return fails(x)
        except ValueError as error:
            return [at.name for at in traceback.extract_tb(error.__traceback__)]

    assert capture.optimize("eager")(program)(torch.ones(2)) == ["program", "fails"]


@pytest.mark.without_graphs("it is refused")
def test_where_no_break_may_be_it_is_said_where_one_is():
    def reads(x):
        print("hi", file=io.StringIO())
        return len(sys._getframe(1).f_locals)

    def program(x):
        return x * reads(x)

    with pytest.raises(capture.Unsupported, match=r"in test_.*reads"):
        capture.optimize("eager", nopython=True)(program)(torch.ones(2))
