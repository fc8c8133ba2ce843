"""Who is asked whether it equals, or is less than, another: as often as CPython asks, and in its order."""

import pytest
import torch

import capture

ASKED = []


class Told:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        ASKED.append(("==", self.value, other.value))
        return self.value == other.value

    def __lt__(self, other):
        ASKED.append(("<", self.value, other.value))
        return self.value < other.value

    __hash__ = None


class Endless:
    def __iter__(self):
        value = 0
        while True:
            ASKED.append(("next", value))
            yield Told(value)
            value += 1


class ByIndex:
    def __getitem__(self, index):
        ASKED.append(("at", index))
        return Told(index)


def told(*values):
    return [Told(value) for value in values]


PROGRAMS = {
    "in a list": lambda x: Told(2) in told(1, 2, 3),
    "not in a tuple": lambda x: Told(2) not in tuple(told(1, 2, 3)),
    "among values": lambda x: Told(2) in {1: Told(1), 2: Told(2)}.values(),
    "among entries": lambda x: (2, Told(3)) in {1: Told(1), 2: Told(2)}.items(),
    "no entry": lambda x: 2 in {1: Told(1)}.items(),
    "in an endless iterable": lambda x: Told(2) in Endless(),
    "in what is indexed": lambda x: Told(2) in ByIndex(),
    "in a map": lambda x: Told(2) in map(Told, [1, 2, 3]),
    "counted": lambda x: told(1, 2, 1).count(Told(1)),
    "found": lambda x: told(1, 2, 1).index(Told(2)),
    "two lists": lambda x: told(1, 2) == told(1, 3),
    "sorted": lambda x: [each.value for each in sorted(told(3, 1, 2, 1))],
    "sorted backward": lambda x: [each.value for each in sorted(told(3, 1, 2, 1), reverse=True)],
    "the least": lambda x: min(told(3, 1, 2)).value,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_comparisons_are_pythons(program):
    def run(function):
        ASKED.clear()
        return function(torch.ones(1)), list(ASKED)

    options = capture.Options(leave_idle=False)
    expected, region = run(program), capture.optimize("eager", options=options)(program)
    assert [run(region) for _ in range(2)] == [expected] * 2
