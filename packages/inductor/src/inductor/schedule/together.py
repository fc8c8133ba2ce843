"""Joint launches: independent elementwise kernels of a GPU started as one.

An optimizer's step has one kernel for each parameter, and a launch takes longer than most of them run.  Each stays what
it is and becomes a member of a kernel that shares the programs out among them.  Members whose text differs only in the
number of elements are a family, and share the text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import torch

from inductor import costs
from inductor.deps import access
from inductor.ir.expr import substitute
from inductor.ir.graph import Graph
from inductor.ir.index import Index, Symbol, loop_variable
from inductor.ir.kernel import COUNT, Family, Kernel, Loop, map_statement, numbers_last
from inductor.ir.program import Call
from inductor.schedule.kernels import with_own_names


def start_together(graph: Graph, work: Sequence[Kernel | Call]) -> list[Kernel | Call]:
    """The work with kernels that can be launched together made one kernel."""
    result: list[Kernel | Call | None] = list(work)
    gathering = _Gathering()
    for number, item in enumerate(work):
        if isinstance(item, Kernel):
            touched = _Touched.by(item)
            if _is_elementwise(item):
                gathering.add(number, item, touched, result, graph.buffers[item.arguments[0].name].device)
                continue
        else:
            reads_and_writes = access(item, graph)
            touched = _Touched(set(reads_and_writes.reads), set(reads_and_writes.writes))
        # Gathered kernels move behind everything up to the last of them: what needs them must come after, so the group
        # ends here.
        if gathering.members and touched.meets(gathering.touched):
            gathering.close(result)
    gathering.close(result)
    return [item for item in result if item is not None]


@dataclass
class _Touched:
    """The buffers that something reads and writes."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)

    @staticmethod
    def by(kernel: Kernel) -> _Touched:
        reads = {argument.name for argument in kernel.arguments if argument.role != "out"}
        return _Touched(reads, {argument.name for argument in kernel.arguments if argument.role != "in"})

    def meets(self, other: _Touched) -> bool:
        """True if the two must keep their order."""
        return bool(self.writes & (other.reads | other.writes) or self.reads & other.writes)

    def add(self, other: _Touched) -> None:
        self.reads |= other.reads
        self.writes |= other.writes


@dataclass
class _Gathering:
    """Kernels that will be launched together, at the place of the last of them."""

    members: dict[int, Kernel] = field(default_factory=dict)
    touched: _Touched = field(default_factory=_Touched)
    families: set[Any] = field(default_factory=set)
    device: torch.device | None = None

    def add(
        self, number: int, kernel: Kernel, touched: _Touched, work: list[Kernel | Call | None], device: torch.device
    ) -> None:
        """Adds a kernel, after closing a group that it does not fit into."""
        key = family_key(kernel)
        arguments = sum(len(member.arguments) for member in self.members.values()) + len(kernel.arguments)
        full = arguments > costs.GPU.most_arguments or len(self.families | {key}) > costs.GPU.most_families
        if full or device != self.device or touched.meets(self.touched):
            self.close(work)
        self.device = device
        self.members[number] = kernel
        self.touched.add(touched)
        self.families.add(key)

    def close(self, work: list[Kernel | Call | None]) -> None:
        """Replaces the gathered kernels by one, unless there is only one."""
        if len(self.members) > 1:
            for number in self.members:
                work[number] = None
            work[max(self.members)] = combined(list(self.members.values()))
        self.members, self.touched, self.families = {}, _Touched(), set()


def _is_elementwise(kernel: Kernel) -> bool:
    """True for kernels that can be members: one pass over known elements, no reduction."""
    if kernel.device != "cuda" or kernel.product is not None or kernel.sizes:
        return False
    if any(loop.axes for loop in kernel.loops) or any(argument.numel.as_int() is None for argument in kernel.arguments):
        return False
    return 0 < elements_of(kernel) <= (costs.GPU.largest_member if len(kernel.axes) < 2 else costs.ANY.small_work)


def elements_of(kernel: Kernel) -> int:
    """The number of elements that an elementwise kernel makes."""
    return math.prod(axis.size.as_int() or 0 for axis in kernel.axes if axis.size is not None)


def combined(members: Sequence[Kernel]) -> Kernel:
    """One kernel that does the work of all; members of a family stand beside one another."""
    by_family: dict[Any, list[Kernel]] = {}
    for member in members:
        by_family.setdefault(family_key(member), []).append(member)
    ordered = tuple(member for family in by_family.values() for member in family)
    origins = tuple(dict.fromkeys(origin for family in by_family.values() for origin in family[0].origins))
    name = f"{ordered[0].name}_and_{len(ordered) - 1}_more"
    arguments = numbers_last(argument for member in ordered for argument in member.arguments)
    return Kernel(name, "cuda", (), (), arguments, (), origins, members=ordered)


# -- families ---------------------------------------------------------------------------------------------------------


def family_key(kernel: Kernel) -> Any:
    """A key that is equal for kernels of one family."""
    general = family_of(kernel)
    arguments = tuple((argument.dtype, argument.role, argument.number) for argument in general.arguments)
    # Numbers of elements that are a multiple of the step allow wide accesses: a text of its own.
    return general.axes, general.loops, arguments, elements_of(kernel) % costs.GPU.step == 0


def families(members: Sequence[Kernel]) -> tuple[Family, ...]:
    """The families of members that stand in their order."""
    found: list[Family] = []
    for _, group in groupby(members, key=family_key):
        family = list(group)
        step = costs.GPU.step if elements_of(family[0]) % costs.GPU.step == 0 else 1
        found.append(Family(family_of(family[0]), len(family), step))
    return tuple(found)


def family_of(kernel: Kernel) -> Kernel:
    """The kernel with names of its own, for any number of elements where its text need not say how many."""
    own = with_own_names(kernel)
    if len(own.axes) != 1:
        return own
    (axis,) = own.axes
    general = loop_variable(axis.name, Index.of(COUNT))
    return replace(own, axes=(general,), loops=_moved(own.loops, {axis: Index.of(general)}))


def _moved(loops: Iterable[Loop], moves: dict[Symbol, Index]) -> tuple[Loop, ...]:
    return tuple(
        Loop(loop.axes, tuple(map_statement(s, lambda expr: substitute(expr, moves), moves) for s in loop.body))
        for loop in loops
    )
