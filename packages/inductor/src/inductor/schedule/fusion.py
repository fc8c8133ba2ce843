"""Fusion: the choice of nests that share a kernel.  A greedy walk in program order, then one over the groups it left.

Groups keep the set of groups that must come before them as bits of an integer, so that the question whether a merge
would close a cycle costs one bit operation and a graph of thousands of nodes is scheduled in near linear time.

Bit k of ``Group.before`` says that group k runs earlier, directly or through others: the closure is kept, not the
edges. Merging B into A closes a cycle exactly where some third group C has A before it and B behind it:

    A -> C -> B     A and B as one would have to run both before and after C

So a merge is legal where no other producer of B has A's bit.  Every change of ``before`` is passed on to all that
follow, or later questions would be answered from stale bits.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field

from inductor import costs
from inductor.deps import Access, dependencies, loads_of, stores_of
from inductor.ir.graph import Graph, Nest, Operation
from inductor.raising import order_of
from inductor.schedule.merge import merge
from inductor.schedule.profit import costs_a_launch, is_small_enough, keeps_parallel, shares_reads, size_in_bytes


@dataclass
class Group:
    """Operations that run as one: a nest (merged from several) or a call."""

    number: int
    """The position of the group, which is its bit."""
    operation: Operation
    reads: set[str]
    writes: set[str]
    before: int = 0
    """The groups that run earlier, as bits."""
    alive: bool = True
    """False once it was merged into another group."""
    members: list[int] = field(default_factory=list)
    """The operations of the group, by their position in the program."""


def fuse(graph: Graph) -> list[Operation]:
    """The operations of the graph with nests merged, in an order that respects every dependency."""
    fusion = _Fusion(graph)
    for number, operation in enumerate(graph.operations):
        fusion.add(number, operation)
    fusion.merge_groups()
    return fusion.ordered()


class _Fusion:
    """The state of fusing one graph: its groups so far, and the order that they must keep."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.accesses, self.needed = dependencies(graph)
        self.order = order_of(graph, self.accesses)
        # What writes an input waits for all that may raise (``raising``): one more dependency, which no memory shows.
        for number in self.order.writers:
            self.needed[number].update(other for other in self.order.raisers if other < number)
        self.groups: list[Group] = []
        self.group_of: list[Group] = []
        self.readers: dict[str, list[Group]] = {}
        self.small: dict[Hashable, Group] = {}

    def add(self, number: int, operation: Operation) -> None:
        """Puts one operation into a group: an existing one where that is legal and pays, else a new one."""
        touched = self.accesses[number]
        producers = {group.number: group for group in (self.group_of[k] for k in self.needed[number])}
        group = self._join(number, operation, touched, producers) if isinstance(operation, Nest) else None
        if group is None:
            before = 0
            for producer in producers.values():
                before |= producer.before | (1 << producer.number)
            group = Group(len(self.groups), operation, set(touched.reads), set(touched.writes), before)
            self.groups.append(group)
            if isinstance(operation, Nest) and costs_a_launch(operation):
                # The last one over each iteration space: the next small reduction like it is tried with this one.
                self.small[_space(operation)] = group
        group.members.append(number)
        self.group_of.append(group)
        for name in touched.reads:
            self.readers.setdefault(name, []).append(group)

    def _join(self, number: int, nest: Nest, touched: Access, producers: dict[int, Group]) -> Group | None:
        """The group that the nest was merged into, or None."""
        for candidate in self._candidates(nest, touched, producers):
            bit = 1 << candidate.number
            if self.order.kept_apart(candidate.members, (number,)):
                continue
            # Such a producer runs behind the candidate, and the nest behind the producer: as part of the candidate it
            # would run before.
            if any(other is not candidate and other.before & bit for other in producers.values()):
                continue
            merged = self._merged(candidate.operation, nest, candidate.writes, touched.reads)
            if merged is None:
                continue
            candidate.operation = merged
            candidate.reads |= touched.reads
            candidate.writes |= touched.writes
            # The nest brings its other producers along: the candidate, and whoever follows it, now runs behind them
            # too.
            before = 0
            for other in producers.values():
                if other is not candidate:
                    before |= other.before | (1 << other.number)
            self._come_before(candidate, before)
            return candidate
        return None

    def _candidates(self, nest: Nest, touched: Access, producers: dict[int, Group]) -> list[Group]:
        """Groups worth trying, those that share most memory first, and last one that shares none but a launch."""
        found = {k: group for k, group in producers.items() if isinstance(group.operation, Nest)}
        # Not only who made what it reads: who reads the same memory may read it once for both.
        for name in touched.reads:
            for group in self.readers.get(name, ())[-costs.ANY.recent_readers :]:
                if isinstance(group.operation, Nest) and group.alive:
                    found[group.number] = group
        # Ties go to the later group, which is nearer in the program.
        scored = [(-self._shared_bytes(group, touched), -group.number, group) for group in found.values()]
        best = [group for _, _, group in heapq.nsmallest(costs.ANY.most_candidates, scored, key=lambda item: item[:2])]
        beside = self.small.get(_space(nest)) if costs_a_launch(nest) else None
        return [*best, beside] if beside is not None and beside.alive and beside not in best else best

    def _shared_bytes(self, group: Group, touched: Access) -> int:
        """The bytes of buffers that the operation reads and the group reads or writes."""
        common = touched.reads & (group.writes | group.reads)
        return sum(size_in_bytes(self.graph.buffers[name]) for name in common if name in self.graph.buffers)

    def _merged(
        self, first: Operation, second: Nest, written: set[str], read: frozenset[str] | set[str]
    ) -> Nest | None:
        """The merged nest, if merging is legal and pays."""
        assert isinstance(first, Nest)
        # Cheap questions first: ``merge`` rewrites whole nests.  A partial sum is there to be computed early; as one
        # with its reader it would wait for what the reader waits for.
        if not keeps_parallel(first, second) or written & read & self.graph.partial or self._view_meets(first, second):
            return None
        merged = merge(first, second)
        if merged is None or not is_small_enough(merged):
            return None
        if written & read or shares_reads(first, second, merged):
            return merged
        # Nothing is shared but the launch, which is worth it for small reductions over one space.
        return merged if costs_a_launch(first) and costs_a_launch(second) and _space(first) == _space(second) else None

    def _view_meets(self, first: Nest, second: Nest) -> bool:
        """True if one nest writes memory that the other reads through a view returned by a call: at which element is
        unknown."""
        aliases = self.graph.aliases
        return bool(aliases) and any(
            not {aliases[load.buffer] for load in loads_of(reader.loops) if load.buffer in aliases}.isdisjoint(
                store.buffer for store in stores_of(writer.loops)
            )
            for reader, writer in ((first, second), (second, first))
        )

    def _come_before(self, group: Group, before: int) -> None:
        """Records that ``group`` follows others now, and with it whoever follows ``group``."""
        if before | group.before == group.before:
            return
        group.before |= before
        bit = 1 << group.number
        for other in self.groups:
            if other.before & bit:
                other.before |= before

    # -- groups -------------------------------------------------------------------------------------------------------

    def merge_groups(self) -> None:
        """Merges groups that feed one another where no other group stands between them."""
        for group in list(self.groups):
            if not group.alive or not isinstance(group.operation, Nest):
                continue
            for producer in sorted(self._direct_producers(group), key=lambda other: other.number):
                self._try_pair(producer, group)

    def _direct_producers(self, group: Group) -> list[Group]:
        """The groups of nests that write memory the group reads."""
        found = {self.group_of[k].number: self.group_of[k] for member in group.members for k in self.needed[member]}
        return [
            other
            for other in found.values()
            if other is not group and other.alive and isinstance(other.operation, Nest) and other.writes & group.reads
        ]

    def _try_pair(self, first: Group, second: Group) -> None:
        """Merges two groups, if nothing has to run between them and it pays."""
        if self.order.kept_apart(first.members, second.members):
            return
        bit = 1 << first.number
        for member in second.members:
            for k in self.needed[member]:
                # A third group that needs the first and that the second needs keeps them apart.
                between = self.group_of[k]
                if between is not first and between is not second and between.before & bit:
                    return
        assert isinstance(second.operation, Nest)
        merged = self._merged(first.operation, second.operation, first.writes, second.reads)
        if merged is None:
            return
        second.operation = merged
        second.reads |= first.reads
        second.writes |= first.writes
        second.members = sorted(first.members + second.members)
        first.alive = False
        for number in first.members:
            self.group_of[number] = second
        own = 1 << second.number
        # Both are one node now: it follows what either did, but for itself, and who followed either follows both.
        before = (first.before | second.before) & ~(bit | own)
        second.before = before
        for other in self.groups:
            if other.before & (bit | own) and other is not second:
                other.before |= before | own

    # -- order --------------------------------------------------------------------------------------------------------

    def ordered(self) -> list[Operation]:
        """The groups so that each follows what it needs, otherwise as in the program."""
        needs: dict[int, set[int]] = {}
        users: dict[int, list[int]] = {}
        alive = [group for group in self.groups if group.alive]
        for group in alive:
            wanted = {self.group_of[k].number for member in group.members for k in self.needed[member]}
            wanted.discard(group.number)
            needs[group.number] = wanted
            for other in wanted:
                users.setdefault(other, []).append(group.number)
        # Topological order by a heap: of those whose needs are met, the one that the program had first.
        ready = [(group.members[0], group.number) for group in alive if not needs[group.number]]
        heapq.heapify(ready)
        result: list[Operation] = []
        while ready:
            _, number = heapq.heappop(ready)
            result.append(self.groups[number].operation)
            for user in users.get(number, ()):
                needs[user].discard(number)
                if not needs[user]:
                    heapq.heappush(ready, (self.groups[user].members[0], user))
        assert len(result) == len(alive), "a cycle between groups"
        return result


def _space(nest: Nest) -> Hashable:
    """The iteration space of a nest: its device, and the sizes of its axes with those it reduces over."""
    return nest.device, tuple((axis.size, axis in nest.reduced) for axis in nest.domain)
