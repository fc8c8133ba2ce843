"""Triton kernels loaded from their text, and launched.

The one module that imports Triton, and it does so when a kernel for a GPU is first loaded: programs for CPUs never pay.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from inductor.cache import Cache, key_of
from inductor.codegen.triton import HEADER, PrintedTritonKernel
from inductor.errors import BuildError
from inductor.ir.index import Index


def load(kernels: Sequence[PrintedTritonKernel], cache: Cache) -> tuple[dict[str, Callable[..., None]], Path]:
    """A launcher for every kernel by name, and the file they are in.  Launchers take the kernel's tensors and sizes."""
    if importlib.util.find_spec("triton") is None:
        raise BuildError("Triton is not installed, so kernels for GPUs cannot be built; install triton")
    text = HEADER + "".join(f"\n\n{kernel.text}" for kernel in kernels)
    path = cache.keep_text(f"{key_of([text])}.py", text)
    module = _import(path)
    return {kernel.kernel.name: _launcher(module, kernel) for kernel in kernels}, path


def _import(path: Path) -> ModuleType:
    """The file as a module: Triton reads the source of what it compiles."""
    name = f"inductor_kernels_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


def _launcher(module: ModuleType, printed: PrintedTritonKernel) -> Callable[..., None]:
    kernel, shape = printed.kernel, printed.shape
    function = getattr(module, kernel.name)
    options = {"XBLOCK": shape.x, "RBLOCK": shape.r, "num_warps": shape.warps, "enable_fp_fusion": False}
    numel = printed.numel.as_int()
    if numel is not None:
        if numel == 0:
            return _nothing
        start = function[(-(-numel // shape.x),)]

        def launch(*arguments: Any) -> None:
            start(*arguments, **options)

        return launch
    return _sized_launcher(function, printed, options)


def _sized_launcher(function: Any, printed: PrintedTritonKernel, options: dict[str, int]) -> Callable[..., None]:
    """Where the number of elements is known at the call only."""
    sizes, first = printed.kernel.sizes, len(printed.kernel.arguments)
    numel: Index = printed.numel

    def launch(*arguments: Any) -> None:
        count = numel.evaluate(dict(zip(sizes, arguments[first:], strict=True)))
        if count:
            function[(-(-count // printed.shape.x),)](*arguments, **options)

    return launch


def _nothing(*_: Any) -> None:
    """Launches a kernel without elements."""
