"""Plans: runs as lists of integers, the form in which ``runtime/runner.cpp`` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inductor.codegen.cpp import PrintedKernel
from inductor.ir.program import Launch, Run


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """A kernel of a run: the function that calls it, and the positions of its pointers and integers among the run's."""

    function: str
    shared: bool
    pointers: tuple[int, ...]
    integers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlannedStretch:
    """Consecutive waves that are executed by one thread, or by a team."""

    team: bool
    waves: tuple[tuple[PlannedKernel, ...], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A run without the names of its program: the number of its pointers and of its integers (the last of these is the
    number of threads; one pointer more notes positions outside their axis), and its stretches.  ``long`` where it
    releases the GIL, so that other Python threads can go on."""

    pointers: int
    integers: int
    long: bool
    stretches: tuple[PlannedStretch, ...]

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


def plan_of(run: Run, printed: Mapping[str, PrintedKernel]) -> Plan:
    """The plan of a run; ``printed`` has the kernel that stands for each of its kernels."""
    pointers = {name: place for place, name in enumerate(run.buffers)}
    integers = {name: place for place, name in enumerate(run.sizes)}

    def planned(launch: Launch) -> PlannedKernel:
        layout = launch.kernel.cpu
        # The order of a printed entry's parameters: buffers, the pointer for positions outside, sizes, the number of
        # threads.
        places = [pointers[name] for name in launch.buffers] + [len(pointers)] * layout.checked
        numbers = [integers[size.name] for size in launch.kernel.sizes] + [len(integers)] * layout.threaded
        entry = printed[launch.kernel.name].entry_name
        return PlannedKernel(entry, layout.team, tuple(places), tuple(numbers))

    stretches = (
        PlannedStretch(stretch.team, tuple(tuple(map(planned, wave)) for wave in stretch.waves))
        for stretch in run.stretches
    )
    return Plan(len(pointers), len(integers) + 1, run.is_long, tuple(stretches))
