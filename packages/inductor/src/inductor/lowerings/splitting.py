"""Reductions of much to little, on devices that want many programs at once.

One program per result, or per few columns of results, leaves a GPU idle where there are few: a sum of four million
numbers would run on one of its hundred processors, a sum of 4096 rows of 768 on twenty.  What is reduced is cut into
chunks, each chunk is reduced, and then what the chunks gave.
"""

from __future__ import annotations

from collections.abc import Sequence

from inductor.ir.expr import loads
from inductor.ir.index import Index
from inductor.lowerings.sizes import numel
from inductor.lowerings.values import Tensor

ENOUGH = 512
"""So many programs keep a device busy."""

PROGRAMS = 1024
LINE = 128
"""Bytes that a program reads side by side where the reduced axes are not the last."""

SHORTEST_ROW = 1024
SHORTEST_COLUMN = 32
"""A chunk of fewer elements costs more to start than it saves."""

ASSOCIATIVE = frozenset({"sum", "prod", "max", "min", "any", "all"})


def chunks_of(x: Tensor, kind: str, dims: Sequence[int]) -> int:
    """Into how many chunks what is reduced is cut; 1 where that does not pay."""
    kept = numel([size for dim, size in enumerate(x.sizes) if dim not in dims]).as_int()
    reduced = numel([x.sizes[dim] for dim in dims]).as_int()
    if x.device.type != "cuda" or kind not in ASSOCIATIVE or not _are_neighbours(dims) or not kept or not reduced:
        return 1
    by_rows = max(dims) == x.ndim - 1
    programs = kept if by_rows else -(-kept // (LINE // _width(x)))
    shortest = SHORTEST_ROW if by_rows else SHORTEST_COLUMN
    if programs >= ENOUGH:
        return 1
    most = min(PROGRAMS // programs, reduced // shortest)
    return next((count for count in range(most, 3, -1) if reduced % count == 0), 1)


def _width(x: Tensor) -> int:
    """Bytes of an element as it lies in memory, at most those of single precision."""
    read = {load.dtype.itemsize for load in loads(x.expr)}
    return min(4, max(read, default=x.dtype.itemsize))


def _are_neighbours(dims: Sequence[int]) -> bool:
    return bool(dims) and sorted(dims) == list(range(min(dims), max(dims) + 1))


def chunked_sizes(x: Tensor, dims: Sequence[int], chunks: int) -> tuple[Index, ...]:
    """The sizes of ``x`` with what is reduced as chunks by elements."""
    reduced = numel([x.sizes[dim] for dim in dims]).as_int()
    assert reduced is not None
    return (*x.sizes[: min(dims)], Index.of(chunks), Index.of(reduced // chunks), *x.sizes[max(dims) + 1 :])
