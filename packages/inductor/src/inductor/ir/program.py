"""Programs: the steps that a compiled graph takes when it is called.  Made by the scheduler, printed by the wrapper.

A program names buffers; whether a name becomes a tensor, a view or a reused allocation is said by its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from inductor.ir.expr import Expr
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import Kernel
from inductor.torch_versions import OpOverload


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor as the user or a library call sees it."""

    name: str
    dtype: torch.dtype
    device: torch.device
    sizes: tuple[Index, ...]
    strides: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Allocate:
    """Makes an uninitialised buffer, in the memory of ``reuse`` (a buffer that is freed next) where given."""

    buffer: Buffer
    reuse: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Names a strided window on another buffer's memory; ``offset`` is in elements from the first element of ``base``
    (which need not be the start of its storage).

    One that is its ``own`` is a result that no view made, as of a reshape that copies: it lies in the base's memory,
    and is no view to autograd.
    """

    buffer: Buffer
    base: str
    offset: Index
    own: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """Runs a kernel; ``buffers`` are its arguments in order."""

    kernel: Kernel
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """A buffer as an argument of a Call."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """Calls a torch operator (a library kernel, or a fallback, which has a ``reason``).  ``args`` and ``kwargs`` hold
    plain values, lists of them, ``Ref`` and ``Index``.  ``outputs`` are names for what it returns, flattened; None for
    a result nobody reads.  With ``into`` the results are written into buffers that exist already.  ``number`` is the
    name of the one integer that the operator returns instead.  ``unimplemented``: torch's own kernel has no code for
    the operands' dtypes, and raises."""

    target: OpOverload
    args: tuple[object, ...]
    kwargs: tuple[tuple[str, object], ...]
    outputs: tuple[Buffer | None, ...]
    into: tuple[str, ...] = ()
    reason: str | None = None
    number: Symbol | None = None
    unimplemented: bool = False


WIDEST = 1 << 62
"""The largest integer that a graph may be given, of either sign: of more the wrapper raises, ahead of all kernels."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Reads a run-time integer: size or stride ``dim`` of an input buffer, an integer input (``dim`` None), or the
    bits of an input that is a float."""

    symbol: Symbol
    source: str
    dim: int | None
    what: str = "size"


@dataclass(frozen=True, slots=True)
class Free:
    """Drops the last reference the program holds."""

    name: str


Step: TypeAlias = Allocate | View | Launch | Call | Bind | Free


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive waves of a run that are executed alike: by one thread alone, or by a team of threads."""

    team: bool
    waves: tuple[tuple[Launch, ...], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Launches on a CPU that are one call: waves follow one another, the launches of a wave may run side by side;
    ``stretches`` are the same, by who does them.  ``work`` is about how many instructions the run takes.  ``threads``
    where more than one can take part, which pays from so much work on as is ``enough``."""

    waves: tuple[tuple[Launch, ...], ...]
    stretches: tuple[Stretch, ...]
    work: Index
    threads: bool
    enough: int

    @property
    def is_long(self) -> bool:
        """True if it may take long enough to release the GIL meanwhile, so that other Python threads can run."""
        work = self.work.as_int()
        return work is None or work >= self.enough

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of the run, wave after wave."""
        return tuple(launch for wave in self.waves for launch in wave)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The buffers of all its kernels, each named once."""
        return tuple(dict.fromkeys(name for launch in self.launches for name in launch.buffers))

    @property
    def sizes(self) -> tuple[str, ...]:
        """The run-time sizes of all its kernels, each named once."""
        return tuple(dict.fromkeys(size.name for launch in self.launches for size in launch.kernel.sizes))


Item: TypeAlias = Step | Run


@dataclass(frozen=True, slots=True)
class Scratch:
    """Small temporaries that share one allocation of ``bytes``: each with the place where it begins."""

    places: tuple[tuple[str, int], ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """Steps between inputs and outputs.  ``constants`` are tensors kept by the compiled graph; an output may be a
    buffer, an integer expression, a float made of such, a plain value or None.  ``items`` are the steps with launches
    on the CPU gathered into runs, and ``scratch`` says which temporaries share memory: both are decided last, with the
    layouts of the kernels."""

    name: str
    inputs: tuple[Buffer | Symbol | None, ...]
    constants: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Ref | Index | Expr | int | float | bool | None, ...]
    items: tuple[Item, ...] = ()
    scratch: Scratch | None = None

    def buffers(self) -> dict[str, Buffer]:
        """Every buffer by its name."""
        known = {given.name: given for given in (*self.inputs, *self.constants) if isinstance(given, Buffer)}
        for step in self.steps:
            if isinstance(step, Allocate | View):
                known[step.buffer.name] = step.buffer
            elif isinstance(step, Call):
                known.update((output.name, output) for output in step.outputs if output is not None)
        return known

    def launches(self) -> dict[str, torch.device]:
        """Every kernel's name, and the device it runs on."""
        buffers = self.buffers()
        return {step.kernel.name: buffers[step.buffers[0]].device for step in self.steps if isinstance(step, Launch)}
