"""Launchers in C++, with a function of ours in the driver's place."""

import ctypes

import pytest

from inductor.cuda_driver import Function, Parameters
from inductor.launcher import Launchers, build_launchers
from inductor.options import Options

POINTER, NUMBER = ctypes.c_void_p, ctypes.c_uint
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, *[NUMBER] * 7, POINTER, ctypes.POINTER(POINTER), POINTER)
ENTER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Driver:
    """Notes what it is asked to launch, and answers with the statuses it was given."""

    def __init__(self, *statuses):
        self.statuses, self.launched, self.entered = list(statuses), [], []
        self.launch, self.enter = LAUNCH(self.on_launch), ENTER(self.on_enter)

    def on_launch(self, function, blocks, y, z, threads, ty, tz, shared, stream, slots, extra):
        values = [ctypes.c_int64.from_address(slots[k]).value for k in range(5)]
        self.launched.append((function, (blocks, y, z), (threads, ty, tz), shared, stream, values))
        return self.statuses.pop(0) if self.statuses else 0

    def on_enter(self, context):
        self.entered.append(context)
        return 0

    def function(self):
        launch, enter = (ctypes.cast(f, ctypes.c_void_p).value for f in (self.launch, self.enter))
        return Function(11, 128, 7, Parameters(2, 0, 1), 22, launch, enter)


@pytest.fixture(scope="module")
def launchers(tmp_path_factory):
    return build_launchers(Options(cache_dir=str(tmp_path_factory.mktemp("cache"))))


def test_a_launch_hands_over_addresses_and_sizes(launchers):
    driver = Driver()
    launch = launchers("scaled", driver.function(), 5, None)
    assert launch(9, 1 << 40, 32, 17) is None
    assert driver.launched == [(11, (5, 1, 1), (128, 1, 1), 7, 9, [1 << 40, 32, 17, 0, 0])]
    assert launch.__name__ == "scaled"


def test_a_thread_that_has_not_used_the_device_enters_its_context(launchers):
    driver = Driver(201)
    launchers("scaled", driver.function(), 5, None)(9, 16, 32, 17)
    assert driver.entered == [22]
    assert len(driver.launched) == 2


@pytest.mark.parametrize(("statuses", "address"), [((), 24), ((700,), 16)])
def test_what_is_seldom_is_left_to_python(launchers, statuses, address):
    driver, left = Driver(*statuses), []
    launchers("scaled", driver.function(), 5, lambda *given: left.append(given))(9, address, 32, 17)
    assert left == [(9, address, 32, 17)]
    assert len(driver.launched) == len(statuses)


def test_another_number_of_arguments_is_an_error(launchers):
    with pytest.raises(TypeError, match="another number of arguments"):
        launchers("scaled", Driver().function(), 5, None)(9, 16)


def test_without_a_compiler_python_launches(tmp_path):
    without = build_launchers(Options(cache_dir=str(tmp_path), compiler="no-such-compiler"))
    assert without == Launchers(None)
    assert without("scaled", Driver().function(), 5, print) is print
