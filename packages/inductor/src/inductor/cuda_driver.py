"""The CUDA driver: machine code loaded, kernels started.

Called directly, because between two kernels of a small graph it is the host's time that counts: the arguments of a
launch are two short arrays, and everything else about it was settled when the code was loaded.  It must not know where
the machine code comes from.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from inductor.errors import BuildError

Start = Callable[..., int]
"""``start(blocks, stream, *arguments)`` queues a kernel and returns the driver's status."""

_NO_CONTEXT = 201
_MAX_DYNAMIC_SHARED = 8
_SHARED_WITHOUT_ASKING = 48 << 10
_LANES = 32
_HIDDEN = 2
"""The pointers to scratch memory that Triton's kernels take last; ours use none, and get null."""


class DriverError(RuntimeError):
    """The driver refused a launch."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a kernel, in this order: pointers, numbers of any type, and integers of 64 bits.  Of a number a
    launch is given the address on the host, from where the driver copies it at once."""

    pointers: int
    numbers: int = 0
    integers: int = 0

    @property
    def total(self) -> int:
        return self.pointers + self.numbers + self.integers


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel on a device. ``launch`` and ``enter`` are the addresses of the driver's own functions, for launchers
    that are not Python."""

    address: int | None
    threads: int
    shared: int
    parameters: Parameters
    context: int | None
    launch: int | None
    enter: int | None


def load(code: bytes, entry: str, warps: int, shared: int, parameters: Parameters, device: int) -> Function:
    """The function ``entry`` of a cubin, on a device."""
    driver = _driver()
    function, module = ctypes.c_void_p(), ctypes.c_void_p()
    context = _context(device)
    # Pushed and popped, so that the thread's current device stays what it was.
    _check(driver.cuCtxPushCurrent_v2(context), "enter a device's context")
    try:
        _check(driver.cuModuleLoadData(ctypes.byref(module), code), f"load {entry}")
        _check(driver.cuModuleGetFunction(ctypes.byref(function), module, entry.encode()), f"find {entry}")
        if shared > _SHARED_WITHOUT_ASKING:
            _check(driver.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared), f"give {entry} its memory")
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    launch, enter = (ctypes.cast(f, ctypes.c_void_p).value for f in (driver.cuLaunchKernel, driver.cuCtxSetCurrent))
    return Function(function.value, warps * _LANES, shared, parameters, context.value, launch, enter)


def starter(function: Function) -> Start:
    """A function that launches a kernel through ctypes.  It makes its arrays for each launch: another thread may launch
    the same kernel meanwhile."""
    taken = function.parameters
    total = taken.total + _HIDDEN
    numbers = slice(taken.pointers, taken.pointers + taken.numbers)
    values_type, slots_type = ctypes.c_int64 * total, ctypes.c_void_p * total
    offsets = tuple(8 * position for position in range(total))
    address, driver = ctypes.addressof, _driver()
    launch, kernel, threads, shared = driver.cuLaunchKernel, function.address, function.threads, function.shared

    def start(blocks: int, stream: int, *arguments: int) -> int:
        values = values_type(*arguments)
        first = address(values)
        slots = slots_type(*[first + offset for offset in offsets])
        slots[numbers] = list(arguments[numbers])
        status: int = launch(kernel, blocks, 1, 1, threads, 1, 1, shared, stream, slots, None)
        if status == _NO_CONTEXT:  # a thread that has not used the device yet
            _check(driver.cuCtxSetCurrent(function.context), "enter a device's context")
            status = launch(kernel, blocks, 1, 1, threads, 1, 1, shared, stream, slots, None)
        return status

    return start


def fail(status: int, action: str) -> None:
    """Raises a ``DriverError`` with the driver's text for the status."""
    text = ctypes.c_char_p()
    _driver().cuGetErrorString(status, ctypes.byref(text))
    raise DriverError(f"cannot {action}: {(text.value or b'unknown error').decode()} ({status})")


def _check(status: int, action: str) -> None:
    if status:
        fail(status, action)


@cache
def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BuildError(f"the CUDA driver cannot be loaded: {error}") from error
    number, pointer = ctypes.c_uint, ctypes.c_void_p
    driver.cuLaunchKernel.argtypes = [pointer, *[number] * 7, pointer, pointer, pointer]
    driver.cuModuleLoadData.argtypes = [pointer, ctypes.c_char_p]
    driver.cuModuleGetFunction.argtypes = [pointer, pointer, ctypes.c_char_p]
    driver.cuFuncSetAttribute.argtypes = [pointer, ctypes.c_int, ctypes.c_int]
    for name in ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxSetCurrent"):
        getattr(driver, name).argtypes = [pointer]
    return driver


@cache
def _context(device: int) -> ctypes.c_void_p:
    """The context that torch uses on a device too."""
    driver, context = _driver(), ctypes.c_void_p()
    _check(driver.cuInit(0), "start the CUDA driver")
    handle = ctypes.c_int()
    _check(driver.cuDeviceGet(ctypes.byref(handle), device), f"find device {device}")
    _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle), f"use device {device}")
    return context
