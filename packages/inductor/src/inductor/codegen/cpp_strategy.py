"""How a kernel is laid out on a CPU: which loop runs along the vector's lanes, how wide, and what threads share.

A pure decision over the kernel; nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from inductor.codegen.cpp_dialect import BY_LANE, DIVISIONS, EXPENSIVE
from inductor.codegen.cpp_types import FLOATS, HALVES
from inductor.ir.expr import Apply, Const, Expr, IndexValue, Load, Result, children, walk
from inductor.ir.index import ONE, Index, Symbol
from inductor.ir.kernel import Kernel, Loop, Reduce, Scan, Statement, Store

PARALLEL_WORK = 65536
"""Below this many instructions (about 20 µs) waking threads costs more than it brings."""

EXPENSIVE_WORK = 16
"""What a transcendental function counts."""

UNROLLED = 4
"""Accumulators that run side by side where each addition would wait for the one before."""

MANY_TURNS = 64

SMALLEST_TILED = 64
"""Shorter axes stay in the cache anyway."""

TWO = Index.of(2)

VectorOver = Literal["columns", "rows", "nothing"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """``vector`` says which loop is vectorised: ``columns`` the kernel's last axis, ``rows`` the last axis of each
    reduction loop.  ``tiled`` where rows should be done in bands."""

    vector: VectorOver
    width: int
    work_per_iteration: int
    parallel: bool
    tiled: bool


def choose(kernel: Kernel, vector_bytes: int) -> Strategy:
    vector, width = _vectorisation(kernel, vector_bytes)
    work = sum(_loop_work(loop, width) * (static_extent(loop.axes) or 1) for loop in kernel.loops)
    tiled = vector == "columns" and _reads_cross(kernel)
    return Strategy(vector, width, work, _may_be_parallel(kernel), tiled)


def static_extent(axes: Iterable[Symbol]) -> int | None:
    """How many iterations the axes have together, where that is known."""
    total = 1
    for axis in axes:
        extent = axis.size.as_int() if axis.size is not None else None
        if extent is None:
            return None
        total *= extent
    return total


def total_work(kernel: Kernel, strategy: Strategy) -> Index:
    """About how many instructions the kernel takes."""
    total = Index.of(strategy.work_per_iteration)
    for axis in kernel.axes:
        assert axis.size is not None
        total = total * axis.size
    return total // strategy.width


def expressions(statement: Statement) -> tuple[Expr, ...]:
    """Every tree of a statement."""
    trees: tuple[Expr, ...] = (statement.value,)
    if isinstance(statement, Store):
        trees += tuple(value for _, value in statement.bindings)
        trees += (statement.mask,) if statement.mask is not None else ()
    return trees


def nodes(loop: Loop) -> Iterator[Expr]:
    for statement in loop.body:
        for tree in expressions(statement):
            yield from walk(tree)


def is_cheap(loop: Loop) -> bool:
    """Whether memory and latency decide its speed."""
    return not any(isinstance(node, Apply) and node.op in EXPENSIVE for node in nodes(loop))


# -- work -------------------------------------------------------------------------------------------------------------


def _loop_work(loop: Loop, width: int) -> int:
    """Instructions per vector; what has no vector form is done for each of its elements."""
    total = sum(isinstance(statement, Store) for statement in loop.body)
    for node in nodes(loop):
        if isinstance(node, Apply) and node.op in EXPENSIVE:
            total += EXPENSIVE_WORK * (width if _is_by_lane(node) else 1)
        else:
            total += 1
    return total


def _is_by_lane(node: Apply) -> bool:
    if node.op in DIVISIONS:
        return not node.dtype.is_floating_point
    return node.op in BY_LANE or node.dtype == torch.float64


def _may_be_parallel(kernel: Kernel) -> bool:
    """What several threads add to shared places, if it is floats, or write there, would come out differently every
    time: one thread does it."""
    dtypes = {argument.name: argument.dtype for argument in kernel.arguments}
    return not any(
        isinstance(statement, Store)
        and statement.may_meet
        and (statement.mode != "add" or dtypes[statement.buffer] in FLOATS | HALVES)
        for loop in kernel.loops
        for statement in loop.body
    )


def _reads_cross(kernel: Kernel) -> bool:
    """Whether some reads run along the last axis and others along the one before."""
    if len(kernel.axes) < 2 or any(loop.axes for loop in kernel.loops):
        return False
    if any(isinstance(s, Store) and s.may_meet for loop in kernel.loops for s in loop.body):
        return False
    row, column = kernel.axes[-2:]
    if min(_extent(row), _extent(column)) < SMALLEST_TILED:
        return False
    accesses = [index for loop in kernel.loops for index in _accesses(loop)]
    return any(_neighbours(index, column) < 0 and _neighbours(index, row) == 1 for index in accesses)


# -- vectors ----------------------------------------------------------------------------------------------------------


def _vectorisation(kernel: Kernel, vector_bytes: int) -> tuple[VectorOver, int]:
    columns = _columns_score(kernel)
    rows = _rows_score(kernel)
    if rows is not None and (columns is None or rows >= columns):
        longest = max((_extent(loop.axes[-1]) for loop in kernel.loops if loop.axes), default=0)
        width = _fitting(vector_bytes // _widest(kernel, "rows"), longest)
        return ("rows", width) if rows >= 0 and width >= 4 else ("nothing", 1)
    if columns is not None and columns >= 0:
        width = _fitting(vector_bytes // _widest(kernel, "columns"), _extent(kernel.axes[-1]))
        return ("columns", width) if width >= 4 else ("nothing", 1)
    return "nothing", 1


def _extent(axis: Symbol) -> int:
    extent = axis.size.as_int() if axis.size is not None else None
    return 1 << 30 if extent is None else extent


def _fitting(width: int, extent: int) -> int:
    while width > 4 and width > extent:
        width //= 2
    return width if width <= extent else 1


def fits_32_bits(expr: Expr) -> bool:
    """True for a position (or a number) that needs no more."""
    if isinstance(expr, Const):
        return expr.dtype == torch.int64 and abs(int(expr.value)) < 1 << 31
    if not isinstance(expr, IndexValue):
        return False
    low, high = expr.index.bounds
    return low is not None and high is not None and low > -(1 << 31) and high < 1 << 31


def _widest(kernel: Kernel, vector: VectorOver) -> int:
    """The size of the largest element that a vector holds: of what differs from lane to lane, and of accumulators.
    Positions that fit are compared in 32 bits."""
    widths = [4]
    varying: set[str] = set()
    for loop in kernel.loops:
        axes = loop.axes[-1:] if vector == "rows" else kernel.axes[-1:]
        for statement in loop.body:
            if isinstance(statement, Reduce):
                widths.append(statement.dtype.itemsize)
            sizes = [_varying_size(tree, axes, varying) for tree in expressions(statement)]
            widths += [size for size in sizes if size is not None]
            if (not isinstance(statement, Store) and vector == "columns") or any(sizes):
                varying.add(getattr(statement, "name", ""))
    return max(widths)


def _varying_size(tree: Expr, axes: Sequence[Symbol], varying: set[str]) -> int | None:
    """The largest element in a tree that differs along the axes; None where none does."""
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
    if not kernel.axes:
        return None
    axis = kernel.axes[-1]
    return sum(_turns(loop, index) * _neighbours(index, axis) for loop in kernel.loops for index in _accesses(loop))


def _rows_score(kernel: Kernel) -> int | None:
    reductions = [loop for loop in kernel.loops if loop.axes]
    if not reductions or has_scans(kernel.loops):
        return None
    return sum(
        _turns(loop, index) * _neighbours(index, loop.axes[-1]) for loop in reductions for index in _accesses(loop)
    )


def has_scans(loops: Iterable[Loop]) -> bool:
    """Whether something runs along the loops, so that their turns have to be taken one after the other."""
    return any(isinstance(statement, Scan) for loop in loops for statement in loop.body)


def _turns(loop: Loop, index: Index) -> int:
    """How often a loop accesses a place, where that matters: what is done once per row weighs little."""
    if index.symbols.isdisjoint(loop.axes):
        return 1
    extent = static_extent(loop.axes)
    return MANY_TURNS if extent is None else min(extent, MANY_TURNS)


def _accesses(loop: Loop) -> Iterator[Index]:
    seen: set[tuple[str, Index]] = set()
    for statement in loop.body:
        if isinstance(statement, Store):
            yield statement.index
    for node in nodes(loop):
        if isinstance(node, Load) and (node.buffer, node.index) not in seen:
            seen.add((node.buffer, node.index))
            yield node.index


def _neighbours(index: Index, axis: Symbol) -> int:
    """1 where lanes read neighbouring elements or every second, 0 where all read the same, -1 where they read far
    apart."""
    if axis not in index.symbols:
        return 0
    return 1 if index.stride_of(axis) in (ONE, TWO) else -1
