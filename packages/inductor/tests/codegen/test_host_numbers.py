"""Single numbers in the host's memory, which kernels on GPUs take by value."""

import ctypes

import pytest
import torch
from simulated import program_for_gpu, simulated

from inductor import cuda_driver
from inductor.cuda_driver import Function, Parameters
from inductor.ir.program import Call, Launch
from inductor.launcher import build_launchers
from inductor.options import Options


def scaled(x, step):
    return x * (1.0 - 0.9 ** (step + 1)).to(torch.float64) + torch.where(x > 0, step, x)


def launches(program):
    return [step.kernel for step in program.steps if isinstance(step, Launch)]


def test_a_number_is_computed_on_the_host_and_given_to_the_kernel():
    inputs = [torch.randn(40, 30), torch.tensor(3.0)]
    program, _ = program_for_gpu(scaled, inputs, on_host=(1,))
    on_host, on_gpu = launches(program)
    assert (on_host.device, on_gpu.device) == ("cpu", "cuda")
    assert [a.dtype for a in on_gpu.arguments if a.number] == [torch.float64, torch.float32]
    assert not any(isinstance(step, Call) for step in program.steps)
    torch.testing.assert_close(simulated(scaled, inputs, on_host=(1,))(*inputs)[0], scaled(*inputs))


def test_a_number_is_written_to_a_tensor_on_a_gpu():
    inputs = [torch.randn(7), torch.tensor(5, dtype=torch.int64)]

    def fill(x, number):
        x.copy_(number)
        return x + number

    expected = fill(inputs[0].clone(), inputs[1])
    (result,) = simulated(fill, inputs, on_host=(1,))(*inputs)
    assert torch.equal(result, expected)
    assert torch.equal(inputs[0], torch.full((7,), 5.0))


@pytest.mark.parametrize("number", [torch.tensor([3.0]), torch.tensor(3.0).bfloat16(), torch.tensor(True)])
def test_other_tensors_of_the_host_are_left_to_torch(number):
    inputs = [torch.randn(4), number]
    program, _ = program_for_gpu(lambda x, y: x * y, inputs, on_host=(1,))
    assert [step.reason for step in program.steps if isinstance(step, Call)] == ["operands on several devices"]


VALUE = ctypes.c_double(2.5)
POINTER, NUMBER = ctypes.c_void_p, ctypes.c_uint
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, *[NUMBER] * 7, POINTER, ctypes.POINTER(POINTER), POINTER)


@pytest.fixture
def started():
    """What a driver of ours was given: a pointer, a number and an integer; and the function that gives it."""
    given = []

    def on_launch(function, *rest):
        slots = rest[8]
        kinds = (ctypes.c_int64, ctypes.c_double, ctypes.c_int64)
        given.extend(kind.from_address(slots[place]).value for place, kind in enumerate(kinds))
        return 0

    launch = LAUNCH(on_launch)
    address = ctypes.cast(launch, ctypes.c_void_p).value
    return given, Function(11, 128, 7, Parameters(1, 1, 1), 22, address, None), launch


def test_launchers_hand_a_number_over_by_its_value(started, tmp_path):
    given, function, _ = started
    launchers = build_launchers(Options(cache_dir=str(tmp_path)))
    launchers("scaled", function, 5, None)(9, 1 << 40, ctypes.addressof(VALUE), 17)
    assert given == [1 << 40, 2.5, 17]


def test_so_does_the_launcher_in_python(started, monkeypatch):
    given, function, launch = started
    monkeypatch.setattr(cuda_driver, "_driver", lambda: type("Driver", (), {"cuLaunchKernel": launch}))
    assert cuda_driver.starter(function)(5, 9, 1 << 40, ctypes.addressof(VALUE), 17) == 0
    assert given == [1 << 40, 2.5, 17]
