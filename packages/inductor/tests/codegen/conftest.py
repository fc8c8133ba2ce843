"""Runs hand-written kernels: builds them for a register size and gives them flat tensors."""

import ctypes
import os
from dataclasses import replace
from functools import partial

import numpy
import pytest
import torch

from inductor import triton_launch
from inductor.codegen import triton
from inductor.codegen.cpp import print_kernel
from inductor.ir.index import Index
from inductor.ir.kernel import Argument, Kernel, Loop
from inductor.options import Options
from inductor.toolchain import build, open_cache


@pytest.fixture(scope="session")
def options(tmp_path_factory):
    return Options(cache_dir=str(tmp_path_factory.mktemp("cache")))


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
REGISTERS = {"scalar": 4, "256 bits": 32, "512 bits": 64}


@pytest.fixture(params=[None] if INTERPRETED else REGISTERS.values(), ids=["triton"] if INTERPRETED else REGISTERS)
def register(request):
    """The size of a vector register; with 4 bytes every kernel is printed for single elements.  Under Triton's
    interpreter the kernels are printed as Triton, once."""
    return request.param


@pytest.fixture
def run(options, register):
    """Runs a kernel on flat tensors by name; its outputs come back in the same mapping."""
    return partial(run_triton if register is None else run_cpp, options, register)


def run_cpp(options, register, kernel, tensors, sizes=()):
    printed = print_kernel(kernel, register)
    (library,) = build([f'#include "kernel.h"\n{printed.text}'], options)
    function = library.functions[kernel.name]
    function.restype = None
    pointers = [ctypes.c_void_p(tensors[argument.name].data_ptr()) for argument in kernel.arguments]
    integers = [ctypes.c_int64(value) for value in (*sizes, *((2,) if printed.threaded else ()))]
    function(*pointers, *integers)
    return tensors


def run_triton(options, register, kernel, tensors, sizes=()):
    printed = triton.print_kernel(replace(kernel, device="cuda"))
    if any(name in printed.text for name in ("libdevice.", "_floats(")):
        pytest.skip("Triton's interpreter cannot call the GPU's mathematics library")
    launchers, _ = triton_launch.load([printed], open_cache(options))
    with numpy.errstate(all="ignore"):  # masked lanes divide by zero and the like
        launchers[kernel.name](*(tensors[argument.name] for argument in kernel.arguments), *sizes)
    return tensors


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
