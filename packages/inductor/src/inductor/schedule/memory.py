"""The memory plan: allocation before the first write, release after the last use, memory handed from buffer to buffer.

A dead buffer's memory is taken by a new one of the same number of bytes.  A kernel may write over an input of its own
that nobody needs afterwards, where it touches that input only at the element it writes: the two become one argument.

  b0 = allocate       k0 writes b0        k1 reads b0 for the last time, writes b1     free b0
  becomes, where k1 reads b0 only where it writes b1:   b1 = allocate in the memory of b0; k1(b1)

Buffers are of one class where they lie on one device and have the same number of bytes, as an expression of sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from inductor.deps import gives_views, is_custom, loads_of, refs, root, stores_of
from inductor.ir.expr import Expr, Load, rewrite
from inductor.ir.graph import Graph
from inductor.ir.index import ONE, Index, Symbol
from inductor.ir.kernel import Argument, Kernel, Loop, map_statement
from inductor.ir.program import Allocate, Bind, Buffer, Call, Free, Launch, Ref, Step
from inductor.lowerings.convolution import POINTWISE
from inductor.schedule.kernels import storage, with_own_names
from inductor.torch_versions import aten

Work: TypeAlias = Kernel | Call
"""A piece of a program's work: a kernel, or a call of an operator."""
_MemoryClass: TypeAlias = tuple[str, Index]
"""The device and the number of bytes of a buffer; buffers of one class fit into each other's memory."""


FRESH = frozenset((
    aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.convolution.default,
    aten._addmm_activation.default,
    *((POINTWISE.default, POINTWISE.binary) if POINTWISE else ()),
))  # fmt: skip
"""Library calls whose result is memory of its own, laid out as asked for: the program may reuse it afterwards."""


def plan(graph: Graph, work: Sequence[Work]) -> tuple[Step, ...]:
    """The steps of a program that does ``work`` in this order."""
    return _Planner(graph, work).run()


@dataclass
class _Planner:
    """The plan of one program in the making."""

    graph: Graph
    work: Sequence[Work]
    steps: list[Step | None] = field(default_factory=list)
    """The steps so far.  A release that is taken back, because another buffer took over the memory, becomes None."""
    last: dict[str, int] = field(default_factory=dict)
    """The number of the last piece of work that uses a buffer, by itself or through a view; one beyond the last for
    results."""
    present: set[str] = field(default_factory=set)
    """The buffers and views that exist at the current step."""
    dead: dict[_MemoryClass, list[tuple[str, int]]] = field(default_factory=dict)
    """Released buffers by class, each with the position of its release."""
    shared: set[str] = field(default_factory=set)
    """Buffers that calls may have returned views of: how long they are read is unknown."""
    bound: set[Symbol] = field(default_factory=set)
    allocated: set[str] = field(default_factory=set)
    """Buffers that this program allocated."""
    ending: dict[int, list[str]] = field(default_factory=dict)
    """``last`` by number: the buffers whose last use is that piece of work."""

    def run(self) -> tuple[Step, ...]:
        self.steps.extend(self.graph.binds)
        self.bound = {bind.symbol for bind in self.graph.binds}
        inputs = {buffer.name for buffer in self.graph.inputs if isinstance(buffer, Buffer)}
        self.present |= inputs | set(self.graph.constants)
        self._find_last_uses()
        for number, item in enumerate(self.work):
            # Memory first, then views on it, then who uses them.
            self._make_for_call(item)
            for name in self._windows(item):
                self._window(name)
            if isinstance(item, Kernel):
                item = self._allocate(item, number)
                self.steps.append(Launch(with_own_names(item), tuple(argument.name for argument in item.arguments)))
            else:
                self.steps.append(item)
                for buffer in item.outputs:
                    if buffer is not None:
                        self.present.add(buffer.name)
                        if item.target in FRESH:
                            self.allocated.add(buffer.name)
                        self._bind_sizes(buffer)
            self._release(number)
        for output in self.graph.outputs:
            if isinstance(output, Ref) and output.name in self.graph.views:
                self._window(output.name)
        return tuple(step for step in self.steps if step is not None)

    def _bind_sizes(self, buffer: Buffer) -> None:
        """Binds the sizes that are known once a call has returned."""
        for dim, size in enumerate(buffer.sizes):
            symbol = size.as_symbol()
            if symbol is not None and symbol not in self.bound:
                self.bound.add(symbol)
                self.steps.append(Bind(symbol, buffer.name, dim))

    # -- how long buffers live ----------------------------------------------------------------------------------------

    def _find_last_uses(self) -> None:
        """Fills ``last``, ``ending`` and ``shared``."""
        views = self.graph.views
        for number, item in enumerate(self.work):
            for name in _names(item):
                self.last[name] = number
                # A view keeps its base.
                self.last[root(name, views)] = number
            # An operator of the program's own may give back what it was given, against its schema.
            if isinstance(item, Call) and (gives_views(item.target) or is_custom(item.target)):
                self.shared.update(root(ref.name, views) for ref in refs(item))
                self.shared.update(buffer.name for buffer in item.outputs if buffer is not None)
        end = len(self.work)
        for output in self.graph.outputs:
            if isinstance(output, Ref):
                self.last[output.name] = self.last[root(output.name, views)] = end
        for name, number in self.last.items():
            self.ending.setdefault(number, []).append(name)

    def _release(self, number: int) -> None:
        """Releases the buffers that step ``number`` used last."""
        # Sorted, so that the same graph gives the same program.
        for name in sorted(self.ending.get(number, ())):
            # Constants stay for the next call.
            if name not in self.present or name in self.graph.constants:
                continue
            self.present.discard(name)
            buffer = self.graph.buffers.get(name)
            if buffer is not None and self._is_ours(name):
                # Freed all the same: the step is struck out if a later buffer takes it.
                self.dead.setdefault(_memory_class(buffer), []).append((name, len(self.steps)))
            self.steps.append(Free(name))

    def _is_ours(self, name: str) -> bool:
        """True for memory that this program allocated and nobody else can see."""
        return name in self.allocated and name not in self.shared

    # -- buffers ------------------------------------------------------------------------------------------------------

    def _windows(self, item: Work) -> list[str]:
        return [ref.name for ref in refs(item) if ref.name in self.graph.views] if isinstance(item, Call) else []

    def _window(self, name: str) -> None:
        """Makes the view, unless it exists already."""
        if name not in self.present:
            self.steps.append(self.graph.views[name])
            self.present.add(name)

    def _allocate(self, kernel: Kernel, number: int) -> Kernel:
        """Makes the buffers that a kernel writes first; returns the kernel, which may overwrite its inputs now."""
        for argument in kernel.arguments:
            if argument.name in self.present or argument.role == "in":
                continue
            buffer = self.graph.buffers[argument.name]
            self.present.add(buffer.name)
            self.allocated.add(buffer.name)
            victim = self._overwritable(kernel, argument, number)
            if victim is not None:
                kernel = _in_place(kernel, victim, argument)
                # The victim's name ends here, before the launch, which has no argument of that name any more.
                self.ending[number].remove(victim)
                self.present.discard(victim)
                self.steps += [Allocate(buffer, victim), Free(victim)]
                continue
            self._make(buffer)
        return kernel

    def _make_for_call(self, item: Work) -> None:
        """Memory that nothing has written yet, for a call that writes to its arguments."""
        for ref in refs(item) if isinstance(item, Call) else ():
            name = root(ref.name, self.graph.views)
            if name not in self.present:
                self.present.add(name)
                self.allocated.add(name)
                self._make(self.graph.buffers[name])

    def _make(self, buffer: Buffer) -> None:
        """Memory for a buffer: a dead one's, if one is of its size."""
        idle = self.dead.get(_memory_class(buffer))
        if not idle:
            self.steps.append(Allocate(buffer))
            return
        # The one that was freed last: it is the likeliest to be in a cache.
        name, freed = idle.pop()
        self.steps[freed] = None
        self.steps += [Allocate(buffer, name), Free(name)]

    def _overwritable(self, kernel: Kernel, target: Argument, number: int) -> str | None:
        """An input that dies here and whose every element is read before it is written there; None if there is no such
        one."""
        if target.role != "out" or not _has_cells_apart(self.graph.buffers[target.name]):
            return None
        # One place per iteration, always the same, and no other store that might go where positions read from tensors
        # say.
        places = {store.index for store in stores_of(kernel.loops) if store.buffer == target.name}
        if len(places) != 1 or any(s.bindings or s.mode != "set" for s in stores_of(kernel.loops)):
            return None
        # An earlier loop's store would destroy what a later pass still reads.
        last_loop = {id(loop) for loop in kernel.loops[-1:]}
        storing = next(loop for loop in kernel.loops if any(s.buffer == target.name for s in stores_of((loop,))))
        for argument in kernel.arguments:
            name = argument.name
            if argument.role != "in" or self.last.get(name) != number or not self._is_ours(name):
                continue
            if _memory_class(self.graph.buffers[name]) != _memory_class(self.graph.buffers[target.name]):
                continue
            if argument.dtype != target.dtype or id(storing) not in last_loop:
                continue
            # Read only where it is written, in the same iteration and before.
            reads = [load for load in loads_of(kernel.passes) if load.buffer == name]
            if all(load.index in places and not load.bindings for load in reads) and _read_first(storing, name, target):
                return name
        return None


def _has_cells_apart(buffer: Buffer) -> bool:
    """True if the buffer is known to have as many cells as elements: where windows overlap, one iteration would read
    what another one has written."""
    return storage(buffer) == math.prod(buffer.sizes, start=ONE)


def _read_first(loop: Loop, name: str, target: Argument) -> bool:
    """True if no statement behind the store of ``target`` reads ``name``."""
    stored = False
    for statement in loop.body:
        reads = any(load.buffer == name for load in loads_of((Loop((), (statement,)),)))
        if stored and reads:
            return False
        stored = stored or any(store.buffer == target.name for store in stores_of((Loop((), (statement,)),)))
    return True


def _in_place(kernel: Kernel, victim: str, target: Argument) -> Kernel:
    """The kernel with one argument for both buffers."""

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer == victim:
            return Load(target.name, node.index, node.dtype, node.bindings)
        return None

    # The victim's loads read the target: its memory, before it is written.
    loops = tuple(
        Loop(loop.axes, tuple(map_statement(s, lambda expr: rewrite(expr, rule)) for s in loop.body))
        for loop in kernel.loops
    )
    arguments = tuple(
        replace(argument, role="inout") if argument.name == target.name else argument
        for argument in kernel.arguments
        if argument.name != victim
    )
    return replace(kernel, loops=loops, arguments=arguments)


def _names(item: Work) -> list[str]:
    """The buffers that a piece of work is given or returns."""
    if isinstance(item, Kernel):
        return [argument.name for argument in item.arguments]
    return [ref.name for ref in refs(item)] + [buffer.name for buffer in item.outputs if buffer is not None]


def _memory_class(buffer: Buffer) -> _MemoryClass:
    """Buffers of one class fit into each other's memory."""
    return str(buffer.device), storage(buffer) * buffer.dtype.itemsize
