"""Runs hand-written kernels: builds them for a register size and gives them flat tensors."""

import ctypes

import pytest
import torch

from inductor.codegen.cpp import print_kernel
from inductor.ir.index import Index
from inductor.ir.kernel import Argument, Kernel, Loop
from inductor.options import Options
from inductor.toolchain import build


@pytest.fixture(scope="session")
def options(tmp_path_factory):
    return Options(cache_dir=str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(params=[4, 32, 64], ids=["scalar", "256 bits", "512 bits"])
def register(request):
    """The size of a vector register; with 4 bytes every kernel is printed for single elements."""
    return request.param


@pytest.fixture
def run(options, register):
    """Runs a kernel on flat tensors by name; its outputs come back in the same mapping."""

    def run_kernel(kernel, tensors, sizes=()):
        printed = print_kernel(kernel, register)
        (library,) = build([f'#include "kernel.h"\n{printed.text}'], options)
        function = library.functions[kernel.name]
        function.restype = None
        pointers = [ctypes.c_void_p(tensors[argument.name].data_ptr()) for argument in kernel.arguments]
        integers = [ctypes.c_int64(value) for value in (*sizes, *((2,) if printed.threaded else ()))]
        function(*pointers, *integers)
        return tensors

    return run_kernel


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
