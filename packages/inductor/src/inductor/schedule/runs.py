"""Runs: kernels on the CPU that follow one another without a library call between them, started by one call.

Allocations move before the call and releases behind it.  A kernel's wave follows from the kernels whose memory it
needs: waves follow one another, the kernels of a wave may run side by side.  This is about CPUs; kernels launched on a
GPU queue there by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from inductor import costs
from inductor.deps import gives_views, refs
from inductor.ir.index import ZERO
from inductor.ir.kernel import Argument
from inductor.ir.program import Allocate, Buffer, Call, Free, Item, Launch, Run, Step, Stretch, View


def gathered(steps: Sequence[Step], alone: bool = False) -> list[Item]:
    """The steps with launches on the CPU, whose kernels have their layouts, gathered into runs; each ``alone`` in one
    if that is wanted."""
    gathering = _Gathering(alone)
    for step in steps:
        gathering.take(step)
    gathering.end()
    return gathering.items


@dataclass
class _Gathering:
    """A walk over the steps with the run that is being gathered."""

    alone: bool
    items: list[Item] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    frees: list[Free] = field(default_factory=list)
    bytes_of: dict[str, int] = field(default_factory=dict)
    memory: dict[str, str] = field(default_factory=dict)
    held: int = 0

    def take(self, step: Step) -> None:
        """Takes one step into the run, or ends the run before it."""
        if isinstance(step, Launch) and step.kernel.device == "cpu":
            self.launches.append(step)
            # A kernel that checks positions may raise: nothing behind it may have run by then.
            if self.alone or step.kernel.cpu.checked:
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
        """Notes the memory of a call's results; a view lies in the memory of what it views."""
        made = [buffer for buffer in call.outputs if buffer is not None]
        self.bytes_of.update((buffer.name, _bytes(buffer)) for buffer in made)
        given = refs(call)
        if given and gives_views(call.target):
            self.memory.update(dict.fromkeys((buffer.name for buffer in made), self._root(given[0].name)))

    def _allocate(self, step: Allocate) -> None:
        """Makes the allocation come before the run; ends the run first where it has put off the release of much
        memory."""
        if step.reuse is not None:
            self.memory[step.buffer.name] = self._root(step.reuse)
            self.bytes_of[step.buffer.name] = self.bytes_of.pop(step.reuse, 0)
        else:
            if self.held > costs.CPU.most_held:
                self.end()
            self.bytes_of[step.buffer.name] = _bytes(step.buffer)
        self.items.append(step)

    def end(self) -> None:
        """Ends the run: its launches become one item, followed by the releases put off."""
        if self.launches:
            self.items.append(_run(tuple(self._waves())))
            self.items += self.frees
            self.launches, self.frees, self.held = [], [], 0

    def _waves(self) -> Iterator[tuple[Launch, ...]]:
        """The launches by wave: one behind those that write what it touches or read what it writes."""
        written: dict[str, int] = {}
        touched: dict[str, int] = {}
        waves: list[list[Launch]] = []
        for launch in self.launches:
            # By memory instead of by name, as buffers take each other's memory over.
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
    """The size of a buffer in bytes; one known only at run time counts as 0."""
    total = buffer.dtype.itemsize
    for size in buffer.sizes:
        total *= size.as_int() or 0
    return total


# -- who does them ----------------------------------------------------------------------------------------------------


def _run(waves: tuple[tuple[Launch, ...], ...]) -> Run:
    """The run of these waves, cut into stretches by who executes them."""
    stretches: list[Stretch] = []
    for wave in waves:
        for team, launches in _by_who_shares_it_out(wave):
            if stretches and stretches[-1].team == team:
                stretches[-1] = Stretch(team, (*stretches[-1].waves, launches))
            else:
                stretches.append(Stretch(team, (launches,)))
    layouts = [launch.kernel.cpu for wave in waves for launch in wave]
    work = sum((layout.work for layout in layouts), ZERO)
    threads = any(layout.threaded for layout in layouts) or any(stretch.team for stretch in stretches)
    return Run(waves, tuple(stretches), work, threads, costs.CPU.parallel_work)


def _by_who_shares_it_out(wave: Sequence[Launch]) -> Iterator[tuple[bool, tuple[Launch, ...]]]:
    """The kernels of a wave that start threads themselves, then the others, which run as a team if that is worth it."""
    own = tuple(launch for launch in wave if launch.kernel.cpu.threaded)
    rest = tuple(launch for launch in wave if not launch.kernel.cpu.threaded)
    if own:
        yield False, own
    if rest:
        layouts = [launch.kernel.cpu for launch in rest]
        work = sum((layout.work for layout in layouts), ZERO).as_int()
        many = len(rest) > 1 and (work or 0) >= costs.CPU.parallel_work
        yield any(layout.team for layout in layouts) or many, rest
