"""A recording that costs its pool costs no more than that: what comes later is recorded in another."""

import pytest

from cudagraphs import CannotRecord, Manager, Options, Refusal, capture_on
from cudagraphs.pools import MOST, Pools
from cudagraphs.simulated import Allocator, Device

EACH_CALL_COUNTS = Options(warmups=1, gain_samples=0)


class Losing(Device):
    """A recording costs the pool, until there is another."""

    pools_to_lose = 0

    def record(self, *call):
        if self.pools_to_lose:
            raise CannotRecord(Refusal.POOL_DISTURBED, "an earlier recording was broken off")
        return super().record(*call)

    def another_pool(self):
        self.pools_to_lose = max(0, self.pools_to_lose - 1)
        self.pool = Allocator(self.pool.start + 0x100000)


@pytest.fixture
def device():
    return Losing()


@pytest.fixture
def pools(device):
    made = []

    def make():
        if made:
            device.another_pool()
        made.append(Manager(device))
        return made[-1]

    return Pools(make)


def captured(pools, fn):
    return capture_on(pools, fn, [None], options=EACH_CALL_COUNTS)


def calls(function, device, count=4):
    return [function(device.tensor([n])).tolist()[0] for n in range(count)]


def test_what_is_recorded_already_replays_and_the_rest_moves_to_another_pool(pools, device):
    increment, double = captured(pools, lambda x: x + 1), captured(pools, lambda x: x * 2)
    assert calls(increment, device) == [1, 2, 3, 4]
    device.pools_to_lose = 1
    assert calls(double, device) == [0, 2, 4, 6]
    assert calls(increment, device) == [1, 2, 3, 4]
    assert [len(manager.tree.recordings) for manager in pools.managers] == [1, 1]
    assert pools.report().recorded == 2
    assert [refusal.reason for refusal in pools.report().refusals] == [Refusal.POOL_DISTURBED]
    assert pools.show().count("root") == 2


class Breaking(Losing):
    """A recording that fails costs the pool."""

    def record(self, *call):
        try:
            return super().record(*call)
        except Exception:
            self.pools_to_lose = 1
            raise


@pytest.mark.parametrize("device", [Breaking()])
def test_a_function_that_costs_a_pool_costs_no_other(pools, device):
    peeks = [captured(pools, lambda x, k=k: x + x.tolist()[0] + k) for k in range(2)]
    functions = [captured(pools, lambda x, k=k: x + k) for k in range(8)]
    for _ in range(2):
        for k, peek in enumerate(peeks):
            assert calls(peek, device, 6) == [2 * n + k for n in range(6)]
        for k, function in enumerate(functions):
            assert calls(function, device, 6) == [n + k for n in range(6)]
    assert len(pools.managers) == 3
    assert pools.report().recorded == len(functions)


def test_a_device_that_loses_every_pool_is_left_alone_after_some(pools, device):
    device.pools_to_lose = 100
    functions = [captured(pools, lambda x, k=k: x + k) for k in range(8)]
    for k, function in enumerate(functions):
        assert calls(function, device, 6) == [n + k for n in range(6)]
    assert len(pools.managers) == MOST
    assert pools.report().recorded == 0


def test_steps_resets_and_poison_reach_all_pools(pools, device):
    increment, double = captured(pools, lambda x: x + 1), captured(pools, lambda x: x * 2)
    calls(increment, device)
    device.pools_to_lose = 1
    calls(double, device)
    pools.step_begin(release=True)
    pools.poison()
    assert pools.report().steps >= 1
    pools.reset()
    assert not any(manager.tree.recordings for manager in pools.managers)
