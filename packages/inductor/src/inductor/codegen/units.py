"""Translation units of kernels: few enough that the compiler starts seldom, enough to keep the cores busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inductor import costs
from inductor.codegen.cpp import PrintedKernel, print_kernel
from inductor.codegen.triton import HEADER, PrintedTritonKernel
from inductor.codegen.triton import print_kernel as print_triton
from inductor.ir.kernel import Kernel
from inductor.ir.program import Launch, Program


@dataclass(frozen=True, slots=True)
class Unit:
    """A source file and the kernels in it."""

    source: str
    kernels: tuple[PrintedKernel, ...]


@dataclass(frozen=True, slots=True)
class PrintedProgram:
    """The units of a program, and the printed kernel for each of its kernels: equal ones are printed once.  Kernels for
    GPUs are apart."""

    units: tuple[Unit, ...]
    printed: dict[str, PrintedKernel]
    triton: tuple[PrintedTritonKernel, ...] = ()

    def files(self) -> dict[str, str]:
        """The sources, as files for people."""
        files = {f"kernels_{number}.cpp": unit.source for number, unit in enumerate(self.units)}
        if self.triton:
            files["kernels.py"] = HEADER + "".join(f"\n\n{kernel.text}" for kernel in self.triton)
        return files


def print_units(program: Program, processes: int) -> PrintedProgram:
    """The kernels of a program with layouts, printed and distributed over units; ``processes`` compilers can run at
    once."""
    kernels = {step.kernel.name: step.kernel for step in program.steps if isinstance(step, Launch)}
    distinct, printed = _distinct([kernel for kernel in kernels.values() if kernel.device == "cpu"])
    triton = tuple(print_triton(kernel) for kernel in kernels.values() if kernel.device == "cuda")
    count = max(1, min(processes, -(-len(distinct) // costs.CPU.kernels_per_unit)))
    # Every ``count``-th, so that large kernels that follow one another are spread over the units.
    groups = [distinct[start::count] for start in range(count)] if distinct else []
    return PrintedProgram(tuple(_unit(group) for group in groups), printed, triton)


def _distinct(kernels: Sequence[Kernel]) -> tuple[list[PrintedKernel], dict[str, PrintedKernel]]:
    """The kernels whose text differs by more than their name, and for every name the kernel that stands for it."""
    by_body: dict[str, PrintedKernel] = {}
    printed: dict[str, PrintedKernel] = {}
    for kernel in kernels:
        candidate = print_kernel(kernel)
        printed[kernel.name] = by_body.setdefault(candidate.body, candidate)
    return list(by_body.values()), printed


def _unit(kernels: Sequence[PrintedKernel]) -> Unit:
    many = sum(printed.kernel.cpu.elementary for printed in kernels) >= costs.CPU.many_calls
    heading = ("#define INDUCTOR_MANY_CALLS\n" if many else "") + '#include "kernel.h"\n\n'
    return Unit(heading + "\n".join(kernel.text + kernel.entry for kernel in kernels), tuple(kernels))
