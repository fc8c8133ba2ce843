"""The profit of sharing a kernel.  Legality is checked in ``merge``."""

from __future__ import annotations

import math
from collections.abc import Iterable

from inductor import costs
from inductor.deps import loads_of, stores_of
from inductor.ir.graph import Nest
from inductor.ir.index import Index, Symbol
from inductor.ir.program import Buffer


def extent(sizes: Iterable[Index | None]) -> int:
    """An estimate of a product of sizes."""
    return math.prod(
        costs.ANY.likely_size if size is None or (known := size.as_int()) is None else known for size in sizes
    )


def points(axes: Iterable[Symbol]) -> int:
    """An estimate of the number of iterations."""
    return extent(axis.size for axis in axes)


def size_in_bytes(buffer: Buffer) -> int:
    return extent(buffer.sizes) * buffer.dtype.itemsize


def keeps_parallel(first: Nest, second: Nest) -> bool:
    """False where elementwise work would lose its parallel axes to the few rows of a reduction."""
    for rows, other in ((first, second), (second, first)):
        if rows.reduced and not other.reduced:
            work = points(other.domain)
            if points(rows.kept) < costs.ANY.fewest_rows and work > costs.ANY.small_work and work > points(rows.kept):
                return False
    return True


def costs_a_launch(nest: Nest) -> bool:
    """True for reductions that take a GPU no longer than a launch: they run beside others like them in one kernel.
    Elementwise kernels are started together whatever their size."""
    return nest.device.type == "cuda" and bool(nest.reduced) and points(nest.domain) <= costs.ANY.small_work


def is_small_enough(nest: Nest) -> bool:
    """Kernels stay readable to compilers: bounded numbers of arguments and statements."""
    if sum(len(loop.body) for loop in nest.loops) > costs.ANY.most_statements:
        return False
    used = {load.buffer for load in loads_of(nest.loops)} | {store.buffer for store in stores_of(nest.loops)}
    return len(used) <= costs.ANY.most_buffers


def shares_reads(first: Nest, second: Nest, merged: Nest) -> bool:
    """True if the merged nest reads an element once that both read; siblings without that gain nothing."""
    common = {load.buffer for load in loads_of(first.loops)} & {load.buffer for load in loads_of(second.loops)}
    places: dict[str, set[Index]] = {}
    counted = 0
    for load in loads_of(merged.loops):
        if load.buffer in common:
            places.setdefault(load.buffer, set()).add(load.index)
            counted += 1
    # Fewer distinct elements than loads: at least one is read once for both.
    return any(len(found) < counted for found in places.values()) and counted > sum(map(len, places.values()))
