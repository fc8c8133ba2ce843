"""Assembles a program into a callable: kernels printed, built and loaded, the wrapper around them printed and bound."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inductor import runner, triton_launch, triton_tune
from inductor.calling import Boxed
from inductor.codegen.plans import Plan
from inductor.codegen.units import PrintedProgram, print_units
from inductor.codegen.wrapper import Kernels, Wrapper, print_wrapper
from inductor.compiled import CompiledGraph
from inductor.ir.graph import Graph, Nest
from inductor.ir.program import Call, Launch, Program
from inductor.options import Options
from inductor.report import CompiledKernel, Fallback, Report
from inductor.runner import MakeRun
from inductor.schedule import layouts
from inductor.state import STATE
from inductor.toolchain import Library, build, machine, open_cache


@dataclass(frozen=True, slots=True)
class BuiltKernels:
    """The program's kernels, loaded: ``run`` makes a function of a plan, ``launchers`` launch those on GPUs, and
    ``kernels`` describes them for people.  ``libraries`` are those on the CPU, the runner's first."""

    run: MakeRun
    launchers: dict[str, Callable[..., None]]
    kernels: tuple[CompiledKernel, ...]
    libraries: tuple[Library, ...] = ()


def lay_out(program: Program, options: Options) -> Program:
    """The program with everything decided for this machine."""
    return layouts.lay_out(program, options.vector_bytes or machine().vector_bytes, alone=options.labels)


def print_kernels(program: Program, options: Options) -> PrintedProgram:
    processes = options.build_processes or len(os.sched_getaffinity(0))
    return print_units(program, processes)


def build_kernels(
    program: Program, printed: PrintedProgram, options: Options, tell: Callable[[str], None] | None = None
) -> BuiltKernels:
    """Builds and loads the program's kernels; ``tell`` hears how many files are done."""

    def done(files: int, of: int) -> None:
        if tell is not None:
            tell(f"building {len(printed.printed)} kernels, {files} of {of} files")

    run, own, libraries = _load([unit.source for unit in printed.units], options, done)
    # Kernels with equal text share one function: ``printed`` leads from each name to the kernel that stands for it.
    homes: dict[str, Library] = {}
    for unit, library in zip(printed.units, libraries, strict=True):
        homes.update((kernel.kernel.name, library) for kernel in unit.kernels)
    kernels = []
    for name, text in printed.printed.items():
        library = homes[text.kernel.name]
        origins = _origins(program, name)
        kernels.append(CompiledKernel(name, text.text, library.source, origins, library.from_cache))
    launchers: dict[str, Callable[..., None]] = {}
    if printed.triton:
        devices = {name: device.index or 0 for name, device in program.launches().items()}
        launchers, path = triton_launch.load(printed.triton, devices, open_cache(options), options)
        kernels += [CompiledKernel(k.kernel.name, k.text, path, k.kernel.origins, False) for k in printed.triton]
    return BuiltKernels(run, launchers, tuple(kernels), (*own, *libraries))


def tuned(program: Program, printed: PrintedProgram, options: Options) -> Program:
    """The program with its kernels for GPUs in the shapes that ran fastest."""
    if not printed.triton:
        return program
    devices = {name: device.index or 0 for name, device in program.launches().items()}
    fastest = triton_tune.tuned(printed.triton, devices, open_cache(options))
    return layouts.in_shapes(program, {kernel.kernel.name: kernel.shape for kernel in fastest})


def _origins(program: Program, name: str) -> tuple[str, ...]:
    """The operators of the kernel of this name; the one it shares its text with may have had others."""
    return next(step.kernel.origins for step in program.steps if isinstance(step, Launch) and step.kernel.name == name)


def _load(
    sources: Sequence[str], options: Options, done: Callable[[int, int], None] | None = None
) -> tuple[MakeRun, list[Library], list[Library]]:
    """A factory of runs over the kernels of some sources, its own library, and the libraries of the sources."""
    if not sources:
        return _nothing_to_run, [], []
    own, *libraries = build([runner.source(), *sources], options, done)
    return runner.Runner(own, libraries), [own], libraries


def run_from(libraries: Sequence[Library]) -> MakeRun:
    """A factory of runs over libraries that were built before, the runner's own the first of them."""
    return runner.Runner(libraries[0], libraries[1:]) if libraries else _nothing_to_run


def _nothing_to_run(name: str, plan: Plan) -> Callable[..., bool]:
    """The factory of runs of a program without kernels on the CPU."""
    raise KeyError(name)


def load_folder(folder: Path, plans: Mapping[str, Plan]) -> dict[str, Callable[..., bool]]:
    """The functions that a traced wrapper calls, built from the kernels in its folder."""
    run, *_ = _load(
        [path.read_text(encoding="utf-8") for path in sorted(folder.glob("kernels_*.cpp"))], Options.read(None)
    )
    return {name: run(name, plan) for name, plan in plans.items()}


def bind_wrapper(
    program: Program,
    printed: PrintedProgram,
    built: BuiltKernels,
    constants: Mapping[str, torch.Tensor],
    options: Options,
) -> Wrapper:
    kernels = Kernels(printed.printed, built.run, built.launchers)
    return print_wrapper(program, kernels, constants, options.check_inputs)


def finish(
    program: Program,
    wrapper: Wrapper,
    built: BuiltKernels,
    seconds: Mapping[str, float],
    graph: Graph | None = None,
) -> CompiledGraph:
    """The wrapper's function, with its report; ``graph`` is what the program was made from."""
    call = bound(program.name, wrapper.source, wrapper.namespace)
    # A call without a reason is the library's on purpose; one with a reason lacks a lowering.
    calls = [step for step in program.steps if isinstance(step, Call)]
    report = Report(
        kernels=built.kernels,
        fallbacks=tuple(Fallback(str(step.target), step.reason) for step in calls if step.reason is not None),
        library_calls=tuple(str(step.target) for step in calls if step.reason is None),
        lowered={} if graph is None else graph.lowered,
        nests=0 if graph is None else sum(isinstance(operation, Nest) for operation in graph.operations),
        bytes=_bytes_moved(program),
        seconds=seconds,
    )
    return CompiledGraph(call, wrapper.source, program, report)


class _Text:
    """A wrapper's source as a loader: a traceback asks the namespace that the code runs in, and it goes with that.

    It does not ask where the name of a file ends with ``>``.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, name: str) -> str:
        return self._text


def bound(name: str, source: str, namespace: Mapping[str, object]) -> Boxed:
    """The function of a wrapper's source."""
    own: dict[str, Any] = dict(namespace)
    file = f"<generated: inductor {name}>.{next(STATE.source_numbers)}"
    own |= {"__name__": file, "__loader__": _Text(source)}
    exec(compile(source, file, "exec"), own)
    call: Boxed = own["call"]
    return call


def _bytes_moved(program: Program) -> int:
    """The bytes that one call of every kernel reads and writes; an argument whose size is not known counts nothing."""
    arguments = [argument for step in program.steps if isinstance(step, Launch) for argument in step.kernel.arguments]
    sizes = ((argument.numel.as_int() or 0) * argument.dtype.itemsize for argument in arguments)
    return sum(size * (2 if argument.role == "inout" else 1) for size, argument in zip(sizes, arguments, strict=True))


def build_program(
    program: Program, constants: Mapping[str, torch.Tensor] | None = None, options: Options | None = None
) -> CompiledGraph:
    """Builds a program in one step, for programs written by hand."""
    options = options or Options()
    program = lay_out(program, options)
    printed = print_kernels(program, options)
    built = build_kernels(program, printed, options)
    return finish(program, bind_wrapper(program, printed, built, constants or {}, options), built, {})
