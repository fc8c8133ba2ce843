"""Runs hand-written kernels: builds them for a register size and gives them flat tensors."""

import ctypes
from dataclasses import replace
from functools import partial

import pytest
import torch
from processors import AVX2, PORTABLE, built_for
from simulated import INTERPRETED, can_be_interpreted, interpret

from inductor import triton_launch
from inductor.codegen import triton
from inductor.codegen.cpp import print_kernel
from inductor.ir.index import Index
from inductor.ir.kernel import Argument, Kernel, Loop
from inductor.options import Options
from inductor.schedule.layouts import with_layout
from inductor.toolchain import build, open_cache


@pytest.fixture(scope="session")
def options(tmp_path_factory):
    return Options(cache_dir=str(tmp_path_factory.mktemp("cache")))


GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
MACHINES = [
    pytest.param((4, None), id="scalar"),
    pytest.param((16, PORTABLE), id="128 bits, any processor"),
    pytest.param((32, AVX2), id="256 bits, AVX2"),
    pytest.param((64, None), id="512 bits"),
    pytest.param("cuda", id="gpu", marks=GPU),
]


@pytest.fixture(params=[pytest.param("cpu", id="triton")] if INTERPRETED else MACHINES)
def machine(request):
    """What a kernel is printed for: C++ with vector registers of so many bytes (with 4 everything is done for single
    elements), built for this processor or another; or Triton on a device, which is the CPU under its interpreter."""
    return request.param


@pytest.fixture
def run(options, machine):
    """Runs a kernel on flat tensors by name; its outputs come back in the same mapping."""
    return partial(run_triton if isinstance(machine, str) else run_cpp, options, machine)


def run_cpp(options, machine, kernel, tensors, sizes=()):
    register, processor = machine
    printed = print_kernel(with_layout(kernel, register))
    (library,) = build([f'#include "kernel.h"\n{printed.text}'], built_for(processor, options))
    function = library.functions[kernel.name]
    function.restype = None
    pointers = [ctypes.c_void_p(tensors[argument.name].data_ptr()) for argument in kernel.arguments]
    integers = [ctypes.c_int64(value) for value in (*sizes, *((2,) if printed.kernel.cpu.threaded else ()))]
    function(*pointers, *integers)
    return tensors


def run_triton(options, device, kernel, tensors, sizes=()):
    printed = triton.print_kernel(with_layout(replace(kernel, device="cuda")))
    if INTERPRETED and not can_be_interpreted(printed):
        pytest.skip("Triton's interpreter cannot call the GPU's mathematics library")
    on_device = {name: tensor.to(device) for name, tensor in tensors.items()}
    arguments = [on_device[argument.name] for argument in kernel.arguments]
    if INTERPRETED:
        interpret(printed, options, [*arguments, *sizes])
    else:
        launchers, _ = triton_launch.load([printed], {kernel.name: 0}, open_cache(options), options)
        stream = torch.cuda.current_stream().cuda_stream
        launchers[kernel.name](stream, *(argument.data_ptr() for argument in arguments), *sizes)
    return {name: tensor.cpu() for name, tensor in on_device.items()}


@pytest.fixture
def interpreted(options):
    """Runs a printed kernel on the CPU, by Triton's interpreter."""
    return lambda printed, arguments: interpret(printed, options, arguments)


@pytest.fixture
def kernel_of():
    """A kernel from its loops; ``arguments`` are (name, dtype, numel, role)."""

    def make(axes, loops, *arguments, sizes=(), name="kernel_0"):
        loops = tuple(Loop(tuple(loop_axes), tuple(body)) for loop_axes, body in loops)
        arguments = tuple(Argument(label, dtype, Index.of(numel), role) for label, dtype, numel, role in arguments)
        return Kernel(name, "cpu", tuple(axes), loops, arguments, tuple(sizes), ("test",))

    return make


@pytest.fixture(autouse=True)
def _same_numbers():
    torch.manual_seed(0)
