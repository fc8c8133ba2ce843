"""Random programs on the simulated device: whatever is called, held, dropped and stepped, every tensor in the hands of
the program reads as on a twin device that runs everything as it is.

After each operation all pool memory that the program does not hold is wiped, so a read of anybody else's bytes fails.
More programs: ``CUDAGRAPHS_PROGRAMS=10000 pytest packages/cudagraphs/tests/test_random_programs.py``.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cudagraphs import Manager, Options, capture_on, manager
from cudagraphs.node import Recording
from cudagraphs.simulated import Device
from cudagraphs.storage import Ledger


def two_outputs(x):
    y = x * 3
    return [y + 1, y * 5 + 2]


def two_views(x):
    y = x + 7
    return y, y[1:]


def in_place(x):
    x.add_(1)
    return [x * 2]


def change_one_of_two(x, y):
    x.add_(1)
    return [y * 2]


def view_of_input(x):
    return [x, x[:1], x + 1]


class Mine(Exception):
    """An error of the user's own."""


def fail_at(x, value):
    """Fails in the middle for one of its values."""
    y = x * 2
    if value == 1:
        raise Mine
    return y + 1


class Fragile(Device):
    """Breaks off the recordings that it is told to, after the function ran."""

    breaks = 0

    def record(self, *call):
        made = super().record(*call)
        if self.breaks:
            self.breaks -= 1
            raise RuntimeError("the recording was broken off")
        return made


FUNCTIONS = {  # name: (function, tensors taken after the parameter)
    "increment": (lambda w, x: x + 1, 1),
    "scale_by_parameter": (lambda w, x: w * x, 1),
    "join": (lambda w, x, y: (x + y) * 2, 2),
    "two_outputs": (lambda w, x: two_outputs(x + w), 1),
    "two_views": (lambda w, x: two_views(x), 1),
    "in_place": (lambda w, x: in_place(x), 1),
    "change_one_of_two": (lambda w, x, y: change_one_of_two(x, y), 2),
    "view_of_input": (lambda w, x: view_of_input(x), 1),
    "every_other": (lambda w, x: [x[::2], (x + 3)[::2]], 1),
    "peek": (lambda w, x: x + x.tolist()[0], 1),
    "fail_at": (lambda w, x, value: fail_at(x + w, value), 1),
    "update_parameter": (lambda w, x: [w.add_(x), x * 9], 1),
}


class Program(RuleBasedStateMachine):
    """Every value exists twice: under graphs and on the twin."""

    def __init__(self):
        super().__init__()
        self.device, self.twin = Fragile(), Device()
        self.manager = Manager(self.device)
        self.held = []
        self.counter = 0

    @initialize(
        names=st.lists(st.sampled_from(sorted(FUNCTIONS)), min_size=1, max_size=3, unique=True),
        copy_below=st.sampled_from([0, 16, 1 << 20]),
        branches=st.integers(0, 2),
        recordings=st.sampled_from([2, 16]),
        gain_samples=st.sampled_from([0, 0, 1]),
    )
    def begin(self, names, copy_below, branches, recordings, gain_samples):
        self.options = Options(
            warmups=1,
            copy_below=copy_below,
            branches=branches,
            recordings_per_function=recordings,
            gain_samples=gain_samples,
        )
        self.parameters = {size: self.new(size) for size in (2, 3)}
        self.captured = {name: self.capture(name) for name in names}

    def capture(self, name):
        fn, count = FUNCTIONS[name]
        inputs = (None,) * (1 + count + (name == "fail_at"))
        return capture_on(self.manager, fn, inputs, static_inputs=(0,), options=self.options)

    def new(self, size):
        self.counter += 1
        values = [1000 * self.counter + i for i in range(size)]
        return self.device.tensor(values), self.twin.tensor(values)

    def of_size(self, data, size):
        fitting = [pair for pair in self.held if pair[0].view.shape == (size,)]
        chosen = data.draw(st.sampled_from([None, *range(len(fitting))]))
        return self.new(size) if chosen is None else fitting[chosen]

    @rule(size=st.sampled_from([2, 3]), keep=st.sampled_from(["all", "some", "last"]), data=st.data())
    def a_few_calls(self, size, keep, data):
        for _ in range(data.draw(st.integers(1, 5))):
            self.call(data.draw(st.sampled_from(sorted(self.captured))), size, data)
            if keep == "some":
                self.held = [pair for pair in self.held if data.draw(st.booleans())]
            elif keep == "last":
                self.held = self.held[-1:]

    def call(self, name, size, data):
        fn, count = FUNCTIONS[name]
        pairs = [self.parameters[size], *(self.of_size(data, size) for _ in range(count))]
        numbers = [data.draw(st.integers(0, 2))] if name == "fail_at" else []
        try:
            ours = self.captured[name](*(ours for ours, _ in pairs), *numbers)
        except Mine:
            ours = Mine
        try:
            theirs = fn(*(theirs for _, theirs in pairs), *numbers)
        except Mine:
            assert ours is Mine
            return
        ours, theirs = (ours, theirs) if isinstance(ours, list | tuple) else ([ours], [theirs])
        self.held += zip(ours, theirs, strict=True)
        del ours, theirs, pairs
        self.check()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data):
        del self.held[data.draw(st.integers(0, len(self.held) - 1))]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def change_in_place(self, data):
        for tensor in self.held[data.draw(st.integers(0, len(self.held) - 1))]:
            tensor.add_(5)

    @rule()
    def drop_all(self):
        self.held.clear()

    @rule(release=st.booleans())
    def step(self, release):
        if release:
            self.held.clear()
        self.manager.step_begin(release=release)

    @rule(count=st.integers(1, 2))
    def break_off_recordings(self, count):
        self.device.breaks = count

    @rule()
    def reset(self):
        self.manager.reset()

    @rule(data=st.data())
    def capture_anew(self, data):
        """What was captured before is gone."""
        name = data.draw(st.sampled_from(sorted(self.captured)))
        self.captured[name] = self.capture(name)

    @rule(seconds=st.sampled_from([1e-5, 1e-7]))
    def let_operators_take(self, seconds):
        """The second is so little that replays gain nothing."""
        self.device.operator_seconds = seconds

    @rule(size=st.sampled_from([2, 3]))
    def move_parameter(self, size):
        self.parameters[size] = self.new(size)

    @invariant()
    def check(self):
        tensors = [*self.held, *getattr(self, "parameters", {}).values()]
        self.device.wipe(ours for ours, _ in tensors)
        for ours, theirs in tensors:
            assert ours.tolist() == theirs.tolist()


TestRandomPrograms = Program.TestCase
PROGRAMS = int(os.environ.get("CUDAGRAPHS_PROGRAMS", "200"))
TestRandomPrograms.pytestmark = [pytest.mark.timeout(300 + PROGRAMS)]
TestRandomPrograms.settings = settings(
    max_examples=PROGRAMS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


PLANTED = {
    "held outputs are not looked at": (Recording, "overwrites", lambda self, live: []),
    "loans are not taken down": (Ledger, "lend", lambda self, lent: None),
    "moved inputs are not noticed": (Recording, "fits", lambda self, inputs: True),
    "recording forgets what is held": (Device, "occupy", lambda self, state, blocks: None),
    "mutations are not noticed": (Device, "version", lambda self, tensor: 0),
    "shared memory is not noticed": (manager, "separates", lambda driver, plan, inputs: False),
    "all signatures are taken for one": (Device, "signature", lambda self, values: None),
    "inputs are not copied": (Device, "copy", lambda self, destinations, sources: None),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_random_programs_find_a_planted_bug(bug, monkeypatch):
    owner, name, broken = PLANTED[bug]
    monkeypatch.setattr(owner, name, broken)
    quick = settings(
        max_examples=300,
        stateful_step_count=30,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    with pytest.raises((AssertionError, ValueError)):  # wrong values, or shapes that do not fit
        run_state_machine_as_test(Program, settings=quick)
