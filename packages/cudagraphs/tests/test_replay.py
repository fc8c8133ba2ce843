"""One recorded graph, replayed, on the simulated device."""

import pytest

from cudagraphs.function import Function
from cudagraphs.manager import Manager
from cudagraphs.options import Options
from cudagraphs.simulated import Device


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def captured(device):
    """Wraps a function for the device; all share one manager."""
    manager = Manager(device)

    def wrap(fn, *, static=(), **options):
        function = Function(fn, Options(**{"warmups": 1, **options}), frozenset(static))
        call = lambda *inputs: manager.run(function, inputs)
        call.report, call.function, call.manager = manager.report, function, manager
        return call

    return wrap


def test_a_replay_computes_with_the_inputs_of_the_call(device, captured):
    increment = captured(lambda x: x + 1)
    assert [increment(device.tensor([n, n])).tolist() for n in range(5)] == [[n + 1, n + 1] for n in range(5)]
    assert (increment.report().recorded, increment.report().replayed) == (1, 4)


def test_an_output_that_is_held_survives_the_next_calls(device, captured):
    increment = captured(lambda x: x + 1)
    held = [increment(device.tensor([n])) for n in range(8)]
    assert [tensor.tolist() for tensor in held] == [[n + 1] for n in range(8)]
