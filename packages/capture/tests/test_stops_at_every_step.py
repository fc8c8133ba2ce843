"""Evaluation can be told to stop at any step: CPython runs that instruction, and what was there is there."""

import contextlib

import pytest
import torch

import capture
from capture.evaluator.stops import Stops
from capture.reasons import Kind, Reason


def variables(x, seen):
    b = x.sin()
    c = x + 1
    if c.shape[0] > 2:
        c = c + b
    seen.append(c)
    return b


def loops(x, seen):
    total = x * 0
    for k, scale in enumerate((1.0, 2.0)):
        total = total + x * scale
        seen += [k, (k, scale)]
    return {"total": total, "k": k}


def blocks(x, seen):
    try:
        with torch.no_grad(), contextlib.suppress(KeyError):
            y = x * 2
            seen.append({}["missing"])
        assert y.requires_grad is False, y
        raise ValueError(seen)
    except ValueError as error:
        (seen,) = error.args
        return y + len(seen)
    finally:
        seen.append("end")


def closures(x, seen):
    def inner(t, *, scale=2, **rest):
        nonlocal count
        count += 1
        return t * scale + len(rest)

    count = 0
    first, *others = [inner(x, more=1), inner(x, scale=3)]
    del x
    return first + others[0], count, f"{count:>3}", seen[:]


@pytest.mark.parametrize("program", [variables, loops, blocks, closures])
def test_every_step_may_be_the_last(program, monkeypatch):
    """Of the function and of all continuations: stopped once each, at the step of that number."""
    begin, reached = Stops.begin_step, True
    number = 0

    def begin_step(stops, frame):
        nonlocal reached
        known, world = begin(stops, frame), stops._world
        if known is None and stops.step == number and not world.assumptions.stops and number not in told:
            reached = True
            told.add(number)
            stops.stop_at(
                (world.root.instructions[world.root.pc], number), Reason(Kind.VALUE, "told"), world.location()
            )
        return known

    monkeypatch.setattr(Stops, "begin_step", begin_step)
    x, log = torch.linspace(0, 1, 5), capture.Log()
    while reached:
        number, reached, told = number + 1, False, set()
        seen, expected_seen = [], []
        found = capture.optimize("eager", log=log)(program)(x, seen)
        expected = program(x, expected_seen)
        assert repr((found, seen)) == repr((expected, expected_seen)), number
    records = [record for record in log.records() if isinstance(record, capture.BreakRecord)]
    assert sum(record.reason.explanation == "told" for record in records) > 20
