"""Recordings are kept where their replays are both sooner back and sooner done than plain calls."""

import pytest

from cudagraphs import Options, Refusal, capture_on
from cudagraphs.gain import Took, Trial
from cudagraphs.manager import Manager
from cudagraphs.simulated import Device


@pytest.mark.parametrize(
    ("plain", "replayed", "pays"),
    [
        ([(5, 9)], [(3, 4)], True),
        ([(5, 9)], [(7, 8)], False),  # the host is held up
        ([(5, 9)], [(3, 9)], False),  # the device is
        ([(50, 90), (5, 9)], [(6, 8), (6, 8)], False),  # one plain call was disturbed
        ([(5, 9)], [(90, 99), (4, 8)], True),
        ([], [(1, 1)], True),
    ],
)
def test_the_fastest_calls_are_compared(plain, replayed, pays):
    trial = Trial(len(replayed))
    trial.plain, trial.replayed = [Took(*one) for one in plain], [Took(*one) for one in replayed]
    assert (trial.over(), trial.pays()) == (True, pays)


class Scripted(Device):
    """Takes as long as it is told to, call by call."""

    def timed(self, work):
        return next(self.takes), work()


def call_often(takes, calls=10, **options):
    device = Scripted()
    device.takes = iter([Took(*one) for one in takes])
    manager = Manager(device)
    increment = capture_on(manager, lambda x: x + 1, [None], options=Options(**options))
    assert [increment(device.tensor([n])).tolist() for n in range(calls)] == [[n + 1] for n in range(calls)]
    return manager


def test_every_warm_up_but_the_first_is_timed_and_then_the_replays():
    manager = call_often([(5, 9), (5, 9), (4, 8), (4, 8), (4, 8)])
    assert (manager.report().warmups, manager.report().replayed, manager.report().refusals) == (3, 7, ())


def test_replays_that_come_back_later_are_given_up_and_both_times_told():
    manager = call_often([(5e-6, 9e-6), (6e-6, 9e-6), (7e-6, 8e-6), (8e-6, 8e-6), (9e-6, 8e-6)])
    (refused,) = manager.report().refusals
    assert refused.reason is Refusal.NO_GAIN
    assert "a replay was back after 7.0 µs and done after 8.0 µs, a plain call after 5.0 and 9.0 µs" in str(refused)
    assert (manager.report().replayed, manager.report().plain) == (4, 3)
    assert manager.tree.recordings == []


def test_without_samples_every_recording_is_trusted():
    assert call_often([], gain_samples=0).report().replayed == 7
