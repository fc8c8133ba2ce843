"""The layout of a kernel on a CPU: the axis along the vectors' lanes, their width, the loops that threads share, and
how each loop is done.

A pure decision over the kernel, carried by it to the printer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from inductor import costs
from inductor.deps import checks_positions, expressions, has_scans, nodes, static_extent
from inductor.ir.expr import Apply, Expr, IndexValue, Load, Result, children, fits_32_bits, walk
from inductor.ir.index import ONE, Index, Symbol
from inductor.ir.kernel import Kernel, Loop, Reduce, Store
from inductor.ir.layout import CpuLayout, LoopLayout, VectorOver
from inductor.schedule.streams import streams
from inductor.schedule.tiles import transposed_loads

EXPENSIVE = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid", "pow", "atan2",
    "hypot", "rand", "randn", "randint64", "fmod", "mod", "floordiv", "truncdiv",
})  # fmt: skip
"""Operators that the machine has no instruction for."""

BY_LANE = frozenset({
    "lgamma", "digamma", "rand", "randn", "randint64",
})  # fmt: skip
"""Those of them that are computed for one element after the other."""

DIVISIONS = frozenset({"fmod", "mod", "floordiv", "truncdiv"})
"""Operators that are computed so for integers."""


TWO = Index.of(2)


def lay_out(kernel: Kernel, vector_bytes: int) -> CpuLayout:
    """The layout of a kernel; ``vector_bytes`` is the size of one register of the machine."""
    vector, width = _vectorisation(kernel, vector_bytes)
    tiled = vector == "columns" and _reads_cross(kernel)
    # What holds for the whole kernel comes first: its loops are laid out by it.
    decided = _Decided(kernel, vector, width, tiled, _total_work(kernel, width), _may_be_parallel(kernel))
    return CpuLayout(
        vector,
        width,
        tuple(map(decided.loop, kernel.loops)),
        decided.work,
        band=costs.CPU.band if tiled else None,
        transposed=transposed_loads(kernel, *kernel.axes[-2:]) if tiled else (),
        shared=decided.shared(),
        atomic=decided.parallel,
        checked=checks_positions(kernel.passes),
        elementary=sum(isinstance(node, Apply) and node.op in EXPENSIVE for node in nodes(kernel.loops)),
    )


@dataclass(frozen=True, slots=True)
class _Decided:
    """The decisions about a kernel that come before its loops."""

    kernel: Kernel
    vector: VectorOver
    width: int
    tiled: bool
    work: Index
    parallel: bool

    def shared(self) -> Literal["outer", "lanes"] | None:
        """The loops of the kernel that a team shares: the outer ones, or the one along the lanes."""
        axes = self.kernel.axes
        outer = axes[:-1] if self.vector == "columns" else axes
        if self._pays(outer):
            return "outer"
        if self.vector == "columns" and not self.tiled and self._pays(axes[-1:], self.width):
            return "lanes"
        return None

    def _pays(self, axes: Sequence[Symbol], step: int = 1) -> bool:
        """True if the loops over these axes, the last of which makes steps, hold enough work for threads to share."""
        if not axes or not self.parallel or static_extent(self.kernel.axes) == 0:
            return False
        iterations, work = static_extent(axes), self.work.as_int()
        if work is not None and work < costs.CPU.parallel_work:
            return False
        if iterations is None:
            return True
        few = iterations // step < costs.CPU.few_rows and len(axes) < len(self.kernel.axes)  # the loop inside has more
        return iterations >= 2 * step and not few

    def loop(self, loop: Loop) -> LoopLayout:
        """The layout of one of the kernel's loops."""
        kernel, width = self.kernel, self.width
        if not loop.axes:
            read, written = streams(kernel, loop, kernel.axes) if self._in_columns() else ((), ())
            return LoopLayout(read=read, written=written)
        in_lanes = self.vector == "rows" and width <= _extent(loop.axes[-1])
        read, written = streams(kernel, loop, (*kernel.axes, *loop.axes)) if in_lanes else ((), ())
        extent, first, running = static_extent(loop.axes), _extent(loop.axes[0]), has_scans([loop])
        # A row of unknown length is prepared for both: pieces, and ``whole_below`` which the kernel asks about when it
        # runs.
        is_long = extent is None or extent >= costs.CPU.long_reduction
        reduces = any(isinstance(statement, Reduce) for statement in loop.body)
        in_pieces = reduces and is_long and not running and first > 1
        return LoopLayout(
            in_lanes,
            self._side_by_side(loop) if in_lanes and reduces else 1,
            read,
            written,
            pieces=min(costs.CPU.pieces, first) if in_pieces else None,
            unit=costs.CPU.unrolled * width if in_pieces and len(loop.axes) == 1 else 1,
            whole_below=costs.CPU.short_reduction if in_pieces and extent is None else None,
            shared=not kernel.axes and not running and self._loop_is_shared(loop, reduces, in_pieces),
            split=is_long,
            split_in_lanes=is_long and (running or extent is None or extent > costs.CPU.longest_in_lanes),
        )

    def _in_columns(self) -> bool:
        """True if lanes run along the kernel's last axis, without tiles."""
        return self.vector == "columns" and not self.tiled

    def _side_by_side(self, loop: Loop) -> int:
        """The number of accumulators that take turns: several where memory and latency bound the loop's speed."""
        if any(isinstance(node, Apply) and node.op in EXPENSIVE for node in nodes([loop])):
            return 1
        return costs.CPU.unrolled if _extent(loop.axes[-1]) >= costs.CPU.unrolled * self.width else 1

    def _loop_is_shared(self, loop: Loop, reduces: bool, in_pieces: bool) -> bool:
        """Loops inside a kernel without axes stand between statements for one thread, so it starts a team for them."""
        if in_pieces:
            return self._pays(loop.axes)
        return not reduces and self._pays(loop.axes[:1], self.width if len(loop.axes) == 1 else 1)


# -- work -------------------------------------------------------------------------------------------------------------


def _total_work(kernel: Kernel, width: int) -> Index:
    """An estimate of the instructions that the kernel takes."""
    total = Index.of(sum(_loop_work(loop, width) * (static_extent(loop.axes) or 1) for loop in kernel.loops))
    for axis in kernel.axes:
        assert axis.size is not None
        total = total * axis.size
    return total // width


def _loop_work(loop: Loop, width: int) -> int:
    """Instructions per vector; what has no vector form is done for each of its elements."""
    total = sum(isinstance(statement, Store) for statement in loop.body)
    for node in nodes([loop]):
        if isinstance(node, Apply) and node.op in EXPENSIVE:
            total += costs.CPU.elementary_work * (width if _is_by_lane(node) else 1)
        else:
            total += 1
    return total


def _is_by_lane(node: Apply) -> bool:
    """True for operators that are computed for one element after the other."""
    if node.op in DIVISIONS:
        return not node.dtype.is_floating_point
    return node.op in BY_LANE or node.dtype == torch.float64


def _may_be_parallel(kernel: Kernel) -> bool:
    """False where several threads would write to one place, or add floats there: the result would differ from call to
    call, so one thread does it."""
    dtypes = {argument.name: argument.dtype for argument in kernel.arguments}
    return not any(
        isinstance(statement, Store)
        and statement.may_meet
        and (statement.mode != "add" or dtypes[statement.buffer].is_floating_point)
        for loop in kernel.loops
        for statement in loop.body
    )


def _reads_cross(kernel: Kernel) -> bool:
    """True if some accesses run along the last axis and others along the one before."""
    if len(kernel.axes) < 2 or any(loop.axes for loop in kernel.loops):
        return False
    if any(isinstance(s, Store) and s.may_meet for loop in kernel.loops for s in loop.body):
        return False
    row, column = kernel.axes[-2:]
    if min(_extent(row), _extent(column)) < costs.CPU.smallest_tiled:
        return False
    accesses = [access.index for loop in kernel.loops for access in _accesses(loop)]
    return any(_neighbours(index, column) < 0 and _neighbours(index, row) == 1 for index in accesses)


# -- vectors ----------------------------------------------------------------------------------------------------------


def _vectorisation(kernel: Kernel, vector_bytes: int) -> tuple[VectorOver, int]:
    """The axis along the lanes and the number of lanes: rows or columns, whichever finds more neighbours in memory."""
    columns = _columns_score(kernel)
    rows = _rows_score(kernel)
    if rows is not None and (columns is None or rows - _gathered_rows(kernel) >= columns):
        longest = max((_extent(loop.axes[-1]) for loop in kernel.loops if loop.axes), default=0)
        width = _fitting(vector_bytes // _widest(kernel, "rows"), longest)
        # Fewer lanes than four cost more in moves than they save.
        return ("rows", width) if rows >= 0 and width >= 4 else ("nothing", 1)
    if columns is not None and columns >= 0:
        width = _fitting(vector_bytes // _widest(kernel, "columns"), _extent(kernel.axes[-1]))
        return ("columns", width) if width >= 4 else ("nothing", 1)
    return "nothing", 1


def _extent(axis: Symbol) -> int:
    """The size of an axis; a dynamic one is assumed to be large."""
    extent = axis.size.as_int() if axis.size is not None else None
    return 1 << 30 if extent is None else extent


def _fitting(width: int, extent: int) -> int:
    """The widest vector that the axis can fill; 1 where none fits."""
    while width > 4 and width > extent:
        width //= 2
    return width if width <= extent else 1


def _widest(kernel: Kernel, vector: VectorOver) -> int:
    """The size of the largest element that a vector holds: of values that differ from lane to lane, and of
    accumulators.  Positions that fit are compared in 32 bits."""
    widths = [4]
    varying: set[str] = set()
    for loop in kernel.loops:
        axes = loop.axes[-1:] if vector == "rows" else kernel.axes[-1:]
        for statement in loop.body:
            if isinstance(statement, Reduce):
                widths.append(statement.dtype.itemsize)
            sizes = [_size_of_what_differs(tree, axes, varying) for tree in expressions(statement)]
            widths += [size for size in sizes if size is not None]
            if (not isinstance(statement, Store) and vector == "columns") or any(sizes):
                varying.add(getattr(statement, "name", ""))
    return max(widths)


def _size_of_what_differs(tree: Expr, axes: Sequence[Symbol], varying: set[str]) -> int | None:
    """The size of the largest element in a tree that differs along the axes; None where none does."""
    differs: set[int] = set()
    largest: int | None = None
    for node in walk(tree):
        own = isinstance(node, Load | IndexValue) and not node.index.symbols.isdisjoint(axes)
        own = own or (isinstance(node, Result) and node.name in varying)
        if own or any(id(child) in differs for child in children(node)):
            differs.add(id(node))
            counted = node.dtype != torch.bool and not fits_32_bits(node)
            largest = max(largest or 1, node.dtype.itemsize if counted else 1)
    return largest


def _columns_score(kernel: Kernel) -> int | None:
    """The gain of lanes along the last axis: accesses to neighbours count for it, far ones against it."""
    if not kernel.axes:
        return None
    axis = kernel.axes[-1]
    every = ((loop, access) for loop in kernel.loops for access in _accesses(loop))
    return sum(_turns(loop, access) * _neighbours(access.index, axis) for loop, access in every)


def _rows_score(kernel: Kernel) -> int | None:
    """The gain of lanes along the rows of reductions; None where nothing is reduced."""
    reductions = [loop for loop in kernel.loops if loop.axes]
    if not reductions or has_scans(kernel.loops):
        return None
    every = ((loop, access) for loop in reductions for access in _accesses(loop))
    return sum(_turns(loop, access) * _neighbours(access.index, loop.axes[-1]) for loop, access in every)


def _gathered_rows(kernel: Kernel) -> int:
    """The number of gathers in lanes along a reduced axis, where each lane reads at a position of its own."""
    every = ((loop, access) for loop in kernel.loops if loop.axes for access in _accesses(loop))
    return sum(_turns(loop, access) for loop, access in every if loop.axes[-1] in access.positions)


def _turns(loop: Loop, access: _Access) -> int:
    """The number of times that a loop makes an access, as a weight: one made once per row weighs little."""
    if loop.axes and (access.index.symbols | access.positions).isdisjoint(loop.axes):
        return 1
    extent = static_extent(loop.axes)
    return costs.CPU.many_turns if extent is None else min(extent, costs.CPU.many_turns)


@dataclass(frozen=True, slots=True)
class _Access:
    """An element that is read or written, and the axes that its positions from tensors depend on."""

    index: Index
    positions: frozenset[Symbol] = frozenset()


def _accesses(loop: Loop) -> Iterator[_Access]:
    seen: set[tuple[str, Index]] = set()
    for statement in loop.body:
        if isinstance(statement, Store):
            yield _Access(statement.index)
    for node in nodes([loop]):
        if isinstance(node, Load) and (node.buffer, node.index) not in seen:
            seen.add((node.buffer, node.index))
            yield _Access(node.index, _behind_positions(node))


def _behind_positions(load: Load) -> frozenset[Symbol]:
    read = (node for _, position in load.bindings for node in walk(position))
    return frozenset[Symbol]().union(*(node.index.symbols for node in read if isinstance(node, Load | IndexValue)))


def _neighbours(index: Index, axis: Symbol) -> int:
    """1 where lanes access neighbouring elements or every second, 0 where all access the same, -1 where theirs lie far
    apart."""
    if axis not in index.symbols:
        return 0
    return 1 if index.stride_of(axis) in (ONE, TWO) else -1
