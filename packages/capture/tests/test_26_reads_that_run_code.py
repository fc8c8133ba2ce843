"""What an attribute means may be told by code of the program's: it runs as often as in CPython."""

import weakref
from types import ModuleType

import pytest

import capture
from capture.options import Options

EVERYWHERE = {"as users have it": Options(), "in pieces": Options(idle_instructions=None, leave_idle=False)}


@pytest.fixture(params=EVERYWHERE.values(), ids=EVERYWHERE)
def options(request):
    return request.param


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - to be compared
        return type(error), str(error)


left_idle = pytest.mark.without_graphs("the frame is left to CPython", cases=["as users have it"])


def agrees(make, play, options, calls=3):
    """Whether a function says the same of one object after the other, and leaves the same behind."""
    ours, theirs = make(), make()
    captured = capture.optimize("eager", options=options)(play)
    for _ in range(calls):
        assert outcome(captured, ours) == outcome(play, theirs)


class Counting(weakref.ref):
    def __init__(self, target):
        super().__init__(target)
        self.count = 0

    def __call__(self):
        self.count += 1
        return super().__call__(), self.count


class Empty:
    __slots__ = ("asked", "empty")

    def __init__(self):
        self.asked = 0

    def __getattr__(self, name):
        self.asked += 1
        return self.asked


class Sneaky:
    slot = Empty.asked


def module_with(**names):
    made = ModuleType("made")
    vars(made).update(names, asked=[])
    exec("def __getattr__(name):\n    asked.append(name)\n    return len(asked)", vars(made))
    return made


class Failing(ModuleType):
    @property
    def melon(self):
        raise RuntimeError("no melon")


@left_idle
def test_a_reference_that_counts_who_follows_it(options):
    agrees(lambda: Counting(Options), lambda reference: reference()[1], options)


@left_idle
def test_an_empty_slot_asks_getattr_once(options):
    agrees(Empty, lambda obj: (obj.empty, obj.asked), options)
    agrees(Empty, lambda obj: hasattr(obj, "empty") and obj.asked, options)


@left_idle
def test_a_slot_of_another_class(options):
    agrees(Sneaky, lambda obj: obj.slot, options)


@left_idle
def test_a_module_asks_its_getattr_once(options):
    agrees(lambda: module_with(x=1), lambda module: (module.x, module.anything, list(module.asked)), options)


@left_idle
def test_a_module_whose_class_raises(options):
    agrees(lambda: Failing("made"), lambda module: module.melon, options)
