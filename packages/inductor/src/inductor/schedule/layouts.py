"""The last decisions about a program: how its kernels run on their targets, which of them are one call, and which
temporaries share memory.  Printers only print afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from inductor.ir.kernel import Kernel
from inductor.ir.layout import Shape
from inductor.ir.program import Launch, Program
from inductor.schedule import cpu, gpu
from inductor.schedule.runs import gathered
from inductor.schedule.scratch import scratch_of
from inductor.schedule.together import families


def lay_out(program: Program, vector_bytes: int, alone: bool = False) -> Program:
    """The program with everything decided.  ``vector_bytes`` is the size of this CPU's vector registers; with ``alone``
    each kernel on it is a call of its own."""
    steps = tuple(
        replace(step, kernel=with_layout(step.kernel, vector_bytes)) if isinstance(step, Launch) else step
        for step in program.steps
    )
    items = tuple(gathered(steps, alone))
    return replace(program, steps=steps, items=items, scratch=scratch_of(program))


def in_shapes(program: Program, shapes: Mapping[str, Shape]) -> Program:
    """The program with its kernels for GPUs, by their names, in other shapes; itself where these are what it has."""
    launches = {id(step): step for step in program.steps if isinstance(step, Launch) and step.kernel.name in shapes}
    changed = {
        number: replace(step, kernel=replace(step.kernel, layout=shapes[step.kernel.name]))
        for number, step in launches.items()
        if step.kernel.layout != shapes[step.kernel.name]
    }
    if not changed:
        return program
    steps = tuple(changed.get(id(step), step) for step in program.steps)
    return replace(program, steps=steps, items=tuple(changed.get(id(item), item) for item in program.items))


def with_layout(kernel: Kernel, vector_bytes: int = 64) -> Kernel:
    """The kernel with its layout for the target it is for; one that has its layout already keeps it."""
    if kernel.layout is not None:
        return kernel
    if kernel.device == "cpu":
        return replace(kernel, layout=cpu.lay_out(kernel, vector_bytes))
    return replace(kernel, layout=gpu.choose_shape(kernel), families=families(kernel.members))
