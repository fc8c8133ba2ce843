"""Frames that compute no tensor are left to CPython, under the guards that were found for them."""

import pytest
import torch

import capture
from capture import _engine


def captured(function):
    log = capture.Log()
    return capture.optimize("eager", strict=True, log=log)(function), log


def codes(region):
    return [entry.code for entry in _engine.entries(region.function.__code__)]


def test_a_frame_without_tensors_runs_itself():
    region, log = captured(lambda a, *rest, scale=1: [a * scale, *rest])
    assert region(2, 3, scale=4) == [8, 3]
    assert codes(region) == [None]
    assert log.records() == ()


def test_a_call_that_computes_is_captured_after_calls_that_do_not(x):
    region, log = captured(lambda a, on: a.sin() if on else a)
    assert region(x, False) is x
    assert torch.equal(region(x, True), x.sin())
    assert region(x, False) is x
    assert [type(record) for record in log.records()] == [capture.GraphRecord]
    assert [code is None for code in codes(region)].count(True) == 1


def test_arithmetic_on_numbers_alone_is_no_graph():
    region, log = captured(lambda n: n * 2 + 1)
    assert [region(n) for n in (3, 4, 5, 6)] == [7, 9, 11, 13]
    assert log.records() == ()


def test_what_varies_in_vain_is_no_warning():
    region, log = captured(lambda text: text + "!")
    assert [region(str(n)) for n in range(12)] == [f"{n}!" for n in range(12)]
    assert [record.reason.kind for record in log.records()] == ["idle"]


def test_an_exception_is_raised_by_the_frame_itself():
    region, _ = captured(lambda table, key: table[key])
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            region({}, "missing")
        assert caught.traceback[-1].frame.code.raw is region.function.__code__
    assert codes(region) == [None]


def test_what_an_idle_frame_calls_is_not_looked_at():
    region, _ = captured(lambda n: sum(helper(i) for i in range(n)))
    region(3)
    before = _engine.counters()["frames"]
    assert region(3) == 6
    assert _engine.counters()["frames"] == before + 1


def helper(i):
    return i * 2


def test_a_long_loop_without_tensors_is_left_to_cpython(x):
    def play(a):
        total = 0
        for i in range(50_000):
            total += i
        return finish(a, total)

    def finish(a, total):
        return a + total

    region, log = captured(play)
    assert torch.equal(region(x), play(x))
    kinds = [record.reason.kind if hasattr(record, "reason") else type(record) for record in log.records()]
    assert kinds == ["idle", capture.GraphRecord]
