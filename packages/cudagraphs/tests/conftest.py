"""A simulated device, and a way to capture functions on it; all functions of a test share one manager."""

import pytest

from cudagraphs import Manager, Options, capture_on
from cudagraphs.simulated import Device


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def manager(device):
    return Manager(device)


@pytest.fixture
def captured(manager):
    def wrap(fn, inputs=2, *, static=(), mutated=(), **options):
        chosen = Options(**{"warmups": 1, "gain_samples": 0, **options})
        return capture_on(manager, fn, [None] * inputs, static_inputs=static, mutated_inputs=mutated, options=chosen)

    return wrap
