"""Kernels that follow one another without a library call between them are run by one call.

Allocations move before the call and releases behind it.  What a kernel needs of others says in which wave it runs:
waves follow one another, the kernels of a wave may run side by side.  This is about CPUs; what is launched on a GPU
queues there by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from inductor.codegen.cpp import PrintedKernel
from inductor.codegen.cpp_strategy import PARALLEL_WORK
from inductor.deps import gives_views, refs
from inductor.ir.index import ZERO, Index
from inductor.ir.kernel import Argument
from inductor.ir.program import Allocate, Buffer, Call, Free, Launch, Step, View

MOST_HELD = 1 << 20
"""Bytes whose release a run may put off where more memory is needed."""


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """A kernel of a run: the function that calls it, and where its pointers and integers stand among the run's."""

    function: str
    shared: bool
    pointers: tuple[int, ...]
    integers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Waves that one thread does, or a team together."""

    team: bool
    waves: tuple[tuple[PlannedKernel, ...], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does, without the names of a program: how many pointers and integers it is given (the last of these
    is the number of threads; one pointer more notes positions outside their axis), and its stretches.  ``long`` where
    other Python threads should go on meanwhile."""

    pointers: int
    integers: int
    long: bool
    stretches: tuple[Stretch, ...]

    def numbers(self, address: Mapping[str, int]) -> list[int]:
        """The plan as ``runtime/runner.cpp`` reads it."""
        numbers = [self.pointers, self.integers, int(self.long), len(self.stretches)]
        for stretch in self.stretches:
            numbers += [int(stretch.team), len(stretch.waves)]
            for wave in stretch.waves:
                numbers.append(len(wave))
                for step in wave:
                    numbers += [address[step.function], int(step.shared), len(step.pointers), len(step.integers)]
                    numbers += [*step.pointers, *step.integers]
        return numbers


@dataclass(frozen=True, slots=True)
class Run:
    """Launches by wave."""

    waves: tuple[tuple[Launch, ...], ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(launch for wave in self.waves for launch in wave)

    @property
    def buffers(self) -> tuple[str, ...]:
        """What the kernels are given, each once."""
        return tuple(dict.fromkeys(name for launch in self.launches for name in launch.buffers))

    @property
    def sizes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(size.name for launch in self.launches for size in launch.kernel.sizes))


Item: TypeAlias = Step | Run


def gathered(steps: Sequence[Step], printed: Mapping[str, PrintedKernel], alone: bool = False) -> list[Item]:
    """The steps with launches on the CPU gathered into runs; each ``alone`` in one if that is wanted."""
    gathering = _Gathering(printed, alone)
    for step in steps:
        gathering.take(step)
    gathering.end()
    return gathering.items


@dataclass
class _Gathering:
    printed: Mapping[str, PrintedKernel]
    alone: bool
    items: list[Item] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    frees: list[Free] = field(default_factory=list)
    bytes_of: dict[str, int] = field(default_factory=dict)
    memory: dict[str, str] = field(default_factory=dict)
    held: int = 0

    def take(self, step: Step) -> None:
        if isinstance(step, Launch) and step.kernel.name in self.printed:
            self.launches.append(step)
            if self.alone or self.printed[step.kernel.name].checked:
                self.end()
        elif isinstance(step, Allocate):
            self._allocate(step)
        elif isinstance(step, View):
            self.memory[step.buffer.name] = self._root(step.base)
            self.items.append(step)
        elif isinstance(step, Free) and self.launches:
            self.frees.append(step)
            self.held += self.bytes_of.get(step.name, 0)
        else:
            if not isinstance(step, Free):
                self.end()
            self.items.append(step)
            if isinstance(step, Call):
                self._note_results(step)

    def _note_results(self, call: Call) -> None:
        """A view that the call gives is in the memory of what it views."""
        made = [buffer for buffer in call.outputs if buffer is not None]
        self.bytes_of.update((buffer.name, _bytes(buffer)) for buffer in made)
        given = refs(call)
        if given and gives_views(call.target):
            self.memory.update(dict.fromkeys((buffer.name for buffer in made), self._root(given[0].name)))

    def _allocate(self, step: Allocate) -> None:
        if step.reuse is not None:
            self.memory[step.buffer.name] = self._root(step.reuse)
            self.bytes_of[step.buffer.name] = self.bytes_of.pop(step.reuse, 0)
        else:
            if self.held > MOST_HELD:
                self.end()
            self.bytes_of[step.buffer.name] = _bytes(step.buffer)
        self.items.append(step)

    def end(self) -> None:
        """The run is over."""
        if self.launches:
            self.items.append(Run(tuple(self._waves())))
            self.items += self.frees
            self.launches, self.frees, self.held = [], [], 0

    def _waves(self) -> Iterator[tuple[Launch, ...]]:
        written: dict[str, int] = {}
        touched: dict[str, int] = {}
        waves: list[list[Launch]] = []
        for launch in self.launches:
            places = [(self._root(name), argument.role != "in") for name, argument in _arguments(launch)]
            number = max((touched.get(n, 0) if writes else written.get(n, 0) for n, writes in places), default=0)
            for name, writes in places:
                touched[name] = max(touched.get(name, 0), number + 1)
                if writes:
                    written[name] = number + 1
            if number == len(waves):
                waves.append([])
            waves[number].append(launch)
        return (tuple(wave) for wave in waves)

    def _root(self, name: str) -> str:
        return self.memory.get(name, name)


def _arguments(launch: Launch) -> Iterator[tuple[str, Argument]]:
    return zip(launch.buffers, launch.kernel.arguments, strict=True)


def _bytes(buffer: Buffer) -> int:
    """The size of a buffer; what is known only at run time counts as nothing."""
    total = buffer.dtype.itemsize
    for size in buffer.sizes:
        total *= size.as_int() or 0
    return total


# -- plans ------------------------------------------------------------------------------------------------------------


def plan_of(run: Run, printed: Mapping[str, PrintedKernel]) -> Plan:
    pointers = {name: place for place, name in enumerate(run.buffers)}
    integers = {name: place for place, name in enumerate(run.sizes)}
    stretches: list[Stretch] = []
    for wave in run.waves:
        for team, launches in _apart(wave, printed):
            planned = tuple(_planned(launch, printed[launch.kernel.name], pointers, integers) for launch in launches)
            if stretches and stretches[-1].team == team:
                stretches[-1] = Stretch(team, (*stretches[-1].waves, planned))
            else:
                stretches.append(Stretch(team, (planned,)))
    work = work_of(run, printed).as_int()
    long = work is None or work >= PARALLEL_WORK
    return Plan(len(pointers), len(integers) + 1, long, tuple(stretches))


def _apart(wave: Sequence[Launch], printed: Mapping[str, PrintedKernel]) -> Iterator[tuple[bool, tuple[Launch, ...]]]:
    """The kernels of a wave that start threads themselves, then the others: together if that is worth a team."""
    own = tuple(launch for launch in wave if printed[launch.kernel.name].threaded)
    rest = tuple(launch for launch in wave if not printed[launch.kernel.name].threaded)
    if own:
        yield False, own
    if rest:
        kernels = [printed[launch.kernel.name] for launch in rest]
        work = sum((kernel.work for kernel in kernels), ZERO).as_int()
        yield any(kernel.team for kernel in kernels) or (len(rest) > 1 and (work or 0) >= PARALLEL_WORK), rest


def _planned(
    launch: Launch, kernel: PrintedKernel, pointers: Mapping[str, int], integers: Mapping[str, int]
) -> PlannedKernel:
    places = [pointers[name] for name in launch.buffers] + [len(pointers)] * kernel.checked
    numbers = [integers[size.name] for size in launch.kernel.sizes] + [len(integers)] * kernel.threaded
    return PlannedKernel(kernel.entry_name, kernel.team, tuple(places), tuple(numbers))


def work_of(run: Run, printed: Mapping[str, PrintedKernel]) -> Index:
    """About how many instructions the run takes."""
    return sum((printed[launch.kernel.name].work for launch in run.launches), ZERO)
