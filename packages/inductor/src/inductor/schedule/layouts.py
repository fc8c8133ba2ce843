"""The last thing that is decided of a program: how its kernels run on their targets, which of them are one call, and
what temporaries share memory.  What is printed afterwards prints only.
"""

from __future__ import annotations

from dataclasses import replace

from inductor.ir.kernel import Kernel
from inductor.ir.program import Launch, Program
from inductor.schedule import cpu, gpu
from inductor.schedule.runs import gathered
from inductor.schedule.scratch import scratch_of
from inductor.schedule.together import families


def lay_out(program: Program, vector_bytes: int, alone: bool = False) -> Program:
    """The program with everything decided.  ``vector_bytes`` is how much a register of this machine's CPU holds; each
    kernel on it is a call of its own, ``alone``, if that is wanted."""
    steps = tuple(
        replace(step, kernel=with_layout(step.kernel, vector_bytes)) if isinstance(step, Launch) else step
        for step in program.steps
    )
    items = tuple(gathered(steps, alone))
    return replace(program, steps=steps, items=items, scratch=scratch_of(program))


def with_layout(kernel: Kernel, vector_bytes: int = 64) -> Kernel:
    """The kernel with its layout for the target it is for; one that has its layout already keeps it."""
    if kernel.layout is not None:
        return kernel
    if kernel.device == "cpu":
        return replace(kernel, layout=cpu.lay_out(kernel, vector_bytes))
    return replace(kernel, layout=gpu.choose_shape(kernel), families=families(kernel.members))
