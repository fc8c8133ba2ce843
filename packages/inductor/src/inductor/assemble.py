"""A program to something that runs: kernels printed, built and loaded, the wrapper around them printed and bound."""

from __future__ import annotations

import ctypes
import linecache
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from inductor import triton_launch
from inductor.codegen.units import PrintedProgram, print_units
from inductor.codegen.wrapper import Wrapper, print_wrapper
from inductor.compiled import CompiledGraph, CompiledKernel, Fallback, Report
from inductor.ir.program import Call, Launch, Program
from inductor.options import Options
from inductor.toolchain import Library, build, machine, open_cache


@dataclass(frozen=True, slots=True)
class BuiltKernels:
    """The program's kernels, loaded: what runs each, and what a person may want to know of it."""

    launchers: dict[str, Callable[..., None]]
    threaded: frozenset[str]
    checked: frozenset[str]
    kernels: tuple[CompiledKernel, ...]


def print_kernels(program: Program, options: Options) -> PrintedProgram:
    processes = options.build_processes or len(os.sched_getaffinity(0))
    return print_units(program, options.vector_bytes or machine().vector_bytes, processes)


def build_kernels(
    program: Program, printed: PrintedProgram, options: Options, tell: Callable[[str], None] | None = None
) -> BuiltKernels:
    def done(files: int, of: int) -> None:
        if tell is not None:
            tell(f"building {len(printed.printed)} kernels, {files} of {of} files")

    libraries = build([unit.source for unit in printed.units], options, done) if printed.units else []
    homes: dict[str, Library] = {}
    for unit, library in zip(printed.units, libraries, strict=True):
        homes.update((kernel.kernel.name, library) for kernel in unit.kernels)
    launchers: dict[str, Callable[..., None]] = {}
    kernels = []
    for name, signature in printed.signatures().items():
        text = printed.printed[name]
        library = homes[text.kernel.name]
        launchers[name] = _function(library, *signature)
        origins = _origins(program, name)
        kernels.append(CompiledKernel(name, text.text, library.source, origins, library.from_cache))
    if printed.triton:
        devices = {name: device.index or 0 for name, device in program.launches().items()}
        loaded, path = triton_launch.load(printed.triton, devices, open_cache(options))
        launchers.update(loaded)
        kernels += [CompiledKernel(k.kernel.name, k.text, path, k.kernel.origins, False) for k in printed.triton]
    threaded = frozenset(name for name, text in printed.printed.items() if text.threaded)
    checked = frozenset(name for name, text in printed.printed.items() if text.checked)
    return BuiltKernels(launchers, threaded, checked, tuple(kernels))


def _origins(program: Program, name: str) -> tuple[str, ...]:
    """The operators of the kernel of this name; the one it shares its text with may have had others."""
    return next(step.kernel.origins for step in program.steps if isinstance(step, Launch) and step.kernel.name == name)


def _function(library: Library, name: str, pointers: int, integers: int) -> Callable[..., None]:
    function = library.functions[name]
    function.restype = None
    function.argtypes = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * integers
    return function


def load_folder(folder: Path, signatures: Mapping[str, tuple[str, int, int]]) -> dict[str, Callable[..., None]]:
    """The kernels that a trace wrote into a folder, built from there."""
    libraries = build([path.read_text() for path in sorted(folder.glob("kernels_*.cpp"))], Options.read(None))

    def find(function: str, pointers: int, integers: int) -> Callable[..., None]:
        home = next(library for library in libraries if hasattr(library.functions, function))
        return _function(home, function, pointers, integers)

    return {name: find(*signature) for name, signature in signatures.items()}


def bind_wrapper(
    program: Program, built: BuiltKernels, constants: Mapping[str, torch.Tensor], options: Options
) -> Wrapper:
    return print_wrapper(program, built.launchers, built.threaded, built.checked, constants, options.check_inputs)


def finish(program: Program, wrapper: Wrapper, built: BuiltKernels, seconds: Mapping[str, float]) -> CompiledGraph:
    """The wrapper's function, with its report."""
    file = f"<compiled {program.name} {id(wrapper)}>"
    linecache.cache[file] = (len(wrapper.source), None, wrapper.source.splitlines(keepends=True), file)
    namespace = dict(wrapper.namespace)
    exec(compile(wrapper.source, file, "exec"), namespace)
    calls = [step for step in program.steps if isinstance(step, Call)]
    report = Report(
        kernels=built.kernels,
        fallbacks=tuple(Fallback(str(step.target), step.reason) for step in calls if step.reason is not None),
        library_calls=tuple(str(step.target) for step in calls if step.reason is None),
        seconds=seconds,
    )
    return CompiledGraph(namespace["call"], wrapper.source, program, report)


def build_program(
    program: Program, constants: Mapping[str, torch.Tensor] | None = None, options: Options | None = None
) -> CompiledGraph:
    """Everything at once, for programs written by hand."""
    options = options or Options()
    built = build_kernels(program, print_kernels(program, options), options)
    return finish(program, bind_wrapper(program, built, constants or {}, options), built, {})
