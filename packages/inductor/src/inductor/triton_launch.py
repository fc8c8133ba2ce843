"""Triton kernels on their way to a device: machine code from the cache or from Triton's compiler, and its launchers.

Triton is imported when something has to be compiled: programs for CPUs never pay, and neither do programs whose
kernels are in the cache.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from inductor import cuda_driver, triton_workers
from inductor.cache import Cache, key_of
from inductor.codegen.triton import HEADER, PrintedTritonKernel
from inductor.cuda_driver import Parameters
from inductor.errors import BuildError
from inductor.ir.index import Index
from inductor.launcher import Launchers, build_launchers
from inductor.options import Options
from inductor.runtime import compile_worker
from inductor.runtime.compile_worker import ALIGNMENT, Request, module_of
from inductor.toolchain import HEADERS

_POINTERS = {
    torch.float64: "*fp64", torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16",
    torch.bool: "*i1", torch.int8: "*i8", torch.int16: "*i16", torch.int32: "*i32", torch.int64: "*i64",
    torch.uint8: "*u8", torch.uint16: "*u16", torch.uint32: "*u32", torch.uint64: "*u64",
    torch.float8_e4m3fn: "*fp8e4nv", torch.float8_e5m2: "*fp8e5",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Binary:
    """A kernel's machine code, and the facts that the driver needs to start it."""

    code: bytes
    entry: str
    warps: int
    shared: int

    def pack(self) -> bytes:
        header = json.dumps({"entry": self.entry, "warps": self.warps, "shared": self.shared})
        return header.encode() + b"\n" + self.code

    @staticmethod
    def unpack(data: bytes) -> Binary:
        header, _, code = data.partition(b"\n")
        return Binary(code, **json.loads(header))


def load(
    kernels: Sequence[PrintedTritonKernel], devices: Mapping[str, int], store: Cache, options: Options
) -> tuple[dict[str, Callable[..., None]], Path]:
    """A launcher for every kernel by name, on its device, and the file with their text.  A launcher takes a stream, the
    addresses of the kernel's buffers and numbers, and its sizes."""
    text = HEADER + "".join(f"\n\n{kernel.text}" for kernel in kernels)
    file = store.keep_text(f"{key_of([text])}.py", text)
    loaded = [Loaded(kernel, file, store, devices[kernel.kernel.name]) for kernel in kernels]
    with ThreadPoolExecutor(1) as beside:
        launchers = beside.submit(build_launchers, options)
        compile_in_workers(loaded, options.build_processes)
        made = launchers.result()
    return {kernel.printed.kernel.name: kernel.launcher(made) for kernel in loaded}, file


def compile_in_workers(kernels: Sequence[Loaded], processes: int | None = None) -> None:
    """Compiles each different kernel once, several at a time.  One that fails here fails again where it is needed."""
    different = {kernel.key(aligned=True): kernel for kernel in kernels if _blocks(kernel.printed) != 0}
    missing = [kernel for key, kernel in different.items() if kernel.store.find_data(f"{key}.cubin") is None]
    if len(missing) > 1 and _has_triton():
        module_of(missing[0].file)
        triton_workers.compile_all(missing, processes or len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel in a file, bound for a device."""

    printed: PrintedTritonKernel
    file: Path
    store: Cache
    device: int

    def key(self, *, aligned: bool) -> str:
        return key_of((*content(self.printed), identity(), str(_architecture(self.device)), str(aligned)))

    def request(self) -> Request:
        return request_of(self.printed, self.file, _architecture(self.device), aligned=True)

    def compile_here(self) -> None:
        with contextlib.suppress(Exception):  # reported when the kernel is loaded
            binary_of(self.printed, self.file, self.store, _architecture(self.device), aligned=True)

    def take(self, header: dict[str, Any], code: bytes) -> None:
        """Stores machine code that another process made."""
        # One that needs scratch memory is compiled again where it is loaded, for its error.
        if not header["scratch"]:
            binary = Binary(code, header["entry"], header["warps"], header["shared"])
            self.store.keep_data(f"{self.key(aligned=True)}.cubin", binary.pack())

    def launcher(self, launchers: Launchers) -> Callable[..., None]:
        """The kernel's ``launch(stream, *addresses, *sizes)``."""
        blocks = _blocks(self.printed)
        if blocks == 0:
            return _nothing
        function = self._function(aligned=True)
        otherwise = self._in_python(function, blocks)
        if not isinstance(blocks, int):
            return otherwise
        return launchers(self.printed.kernel.name, function, blocks, otherwise)

    def _in_python(
        self, function: cuda_driver.Function, blocks_of: int | Callable[[Sequence[int]], int]
    ) -> Callable[..., None]:
        """The launcher for memory of any alignment, and for any sizes."""
        kernel = self.printed.kernel
        name, pointers, buffers = kernel.name, kernel.pointers, len(kernel.arguments)
        aligned, others = cuda_driver.starter(function), list[cuda_driver.Start]()

        def launch(stream: int, *arguments: int) -> None:
            start = aligned
            # Views may begin anywhere; a kernel for such memory is compiled when the first one comes.
            for pointer in arguments[:pointers]:
                if pointer % ALIGNMENT:
                    others[:] = others or [cuda_driver.starter(self._function(aligned=False))]
                    start = others[0]
            blocks = blocks_of if isinstance(blocks_of, int) else blocks_of(arguments[buffers:])
            if blocks and (status := start(blocks, stream, *arguments)):
                cuda_driver.fail(status, f"launch {name}")

        return launch

    def _function(self, *, aligned: bool) -> cuda_driver.Function:
        binary = binary_of(self.printed, self.file, self.store, _architecture(self.device), aligned=aligned)
        kernel = self.printed.kernel
        parameters = Parameters(kernel.pointers, len(kernel.arguments) - kernel.pointers, len(kernel.sizes))
        return cuda_driver.load(binary.code, binary.entry, binary.warps, binary.shared, parameters, self.device)


def _nothing(*_: int) -> None:
    """Launches nothing, in the place of a kernel without elements."""


def _blocks(printed: PrintedTritonKernel) -> int | Callable[[Sequence[int]], int]:
    """The number of programs; where sizes are dynamic, a function from them to it."""
    programs, sizes = printed.shape.programs, printed.kernel.sizes
    if (known := programs.as_int()) is not None:
        return known

    def count(values: Sequence[int], programs: Index = programs) -> int:
        return programs.evaluate(dict(zip(sizes, values, strict=True)))

    return count


# -- machine code -----------------------------------------------------------------------------------------------------


def binary_of(printed: PrintedTritonKernel, file: Path, store: Cache, architecture: int, *, aligned: bool) -> Binary:
    """The machine code of a kernel, from the cache, or compiled and kept there."""
    key = key_of((*content(printed), identity(), str(architecture), str(aligned)))
    if (found := store.find_data(f"{key}.cubin")) is not None:
        return Binary.unpack(found)
    binary = compile_kernel(printed, file, architecture, aligned)
    store.keep_data(f"{key}.cubin", binary.pack())
    return binary


def content(printed: PrintedTritonKernel) -> tuple[str, ...]:
    """The content of a kernel without its name and operators, as parts of a key: layers of a model share their kernels.

    The text names no dtypes: the signature does.
    """
    return printed.content, repr(_signature(printed)), repr(printed.shape)


def _signature(printed: PrintedTritonKernel) -> dict[str, str]:
    """The types of a kernel's parameters, as Triton writes them."""
    kernel = printed.kernel
    types = {argument.name: _POINTERS[argument.dtype] for argument in kernel.arguments}
    types |= {argument.name: types[argument.name].removeprefix("*") for argument in kernel.arguments if argument.number}
    return types | {size.name: "i64" for size in kernel.sizes}


@cache
def identity() -> str:
    """A digest of the compiler that makes the machine code, and of our functions that go into it."""
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return key_of((version, HEADER, (HEADERS / "triton_math.py").read_text(encoding="utf-8")))


@cache
def _architecture(device: int) -> int:
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def compile_kernel(printed: PrintedTritonKernel, file: Path, architecture: int, aligned: bool = True) -> Binary:
    """Compiles one kernel of a file; no device is needed."""
    if not _has_triton():
        raise BuildError("Triton is not installed, so kernels for GPUs cannot be built; install triton")
    description = compile_worker.compiled(request_of(printed, file, architecture, aligned=aligned))
    header = compile_worker.header_of(description)
    if header["scratch"]:
        raise BuildError(f"{printed.kernel.name} asks for scratch memory, which launches do not provide")
    return Binary(description.asm["cubin"], header["entry"], header["warps"], header["shared"])


def request_of(printed: PrintedTritonKernel, file: Path, architecture: int, *, aligned: bool) -> Request:
    """The request to compile a kernel of a file for an architecture."""
    kernel, shape = printed.kernel, printed.shape
    options: dict[str, Any] = {"num_warps": shape.warps, "enable_fp_fusion": False}
    if shape.tiling is not None:
        options["num_stages"] = shape.tiling.stages
    if printed.checked:  # positions that tensors hold are asserted to be inside
        options |= {"debug": True, "sanitize_overflow": False}
    signature = _signature(printed) | dict.fromkeys(shape.constants, "constexpr")
    pointers = kernel.pointers if aligned else 0
    return Request(str(file), kernel.name, signature, shape.constants, pointers, architecture, options)


def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
