"""``with torch.cuda.device(...)`` in captured code, on a machine whose GPUs are made up."""

import contextlib
import types

import pytest
import torch

import capture
from capture.evaluator.builtin_rules.torch_state import _reading


class GPUs:
    current = 0


@pytest.fixture
def gpus(monkeypatch):
    gpus = GPUs()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: gpus.current)
    return gpus


def on_the_first(x):
    with torch.cuda.device(0):
        x = x + 1
    return x * 2


def captured(function):
    graphs = []
    capture.reset()
    return capture.optimize(lambda gm, inputs: graphs.append(gm) or gm.forward)(function), graphs


def test_a_device_that_is_the_current_one_is_no_break(gpus):
    compiled, graphs = captured(on_the_first)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
    assert len(graphs) == 1


def test_what_is_current_is_guarded(gpus):
    compiled, _ = captured(on_the_first)
    compiled(torch.ones(2))
    gpus.current = 1
    with contextlib.suppress(RuntimeError):  # what torch says of a real exchange where there is no GPU
        compiled(torch.ones(2))
    reasons = [record.reason.kind for record in capture.records() if isinstance(record, capture.BreakRecord)]
    assert reasons[0] == "device"


def test_what_a_device_is_like_is_a_constant(gpus, monkeypatch):
    properties = torch.cuda.get_device_properties
    like = types.SimpleNamespace(multi_processor_count=132, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: like)

    def function(x):
        return x * properties("cuda").multi_processor_count + properties().major

    compiled, graphs = captured(function)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 141.0))
    assert len(graphs) == 1


def test_no_device_is_no_break_either():
    def function(x):
        with torch.cuda.device_of(x):
            return x + 1

    compiled, graphs = captured(function)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert len(graphs) == 1
    assert not [record for record in capture.records() if isinstance(record, capture.BreakRecord)]


class Driver:
    there = False


def stream_is_recorded():
    if not Driver.there:
        raise RuntimeError("no CUDA-capable device is detected")
    return False


_reading(stream_is_recorded, guarded=True)


def test_what_raises_without_a_device_raises_in_the_program():
    """Programs that run anywhere catch it, and stay one graph; it is asked for again at each call."""

    def function(x):
        try:
            return x + stream_is_recorded()
        except RuntimeError as error:
            return x + len(str(error))

    compiled, graphs = captured(function)
    for there in (False, True, False):
        Driver.there = there
        assert torch.equal(compiled(torch.ones(2)), function(torch.ones(2)))
    assert len(graphs) == 2
    assert not [record for record in capture.records() if isinstance(record, capture.BreakRecord)]
