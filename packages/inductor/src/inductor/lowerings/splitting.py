"""Reductions of much to little, on devices that want many programs at once.

One program per result leaves a GPU idle where there are few results: a sum of four million numbers would run on one of
its hundred processors.  The rows are cut into chunks, each chunk is reduced, and then what the chunks gave.
"""

from __future__ import annotations

from collections.abc import Sequence

from inductor.ir.index import Index
from inductor.lowerings.sizes import numel
from inductor.lowerings.values import Tensor

ENOUGH = 512
"""So many results keep a device busy by themselves."""

PROGRAMS = 1024
SHORTEST = 1024
"""A chunk of fewer elements costs more to start than it saves."""

ASSOCIATIVE = frozenset({"sum", "prod", "max", "min", "any", "all"})


def chunks_of(x: Tensor, kind: str, dims: Sequence[int]) -> int:
    """Into how many chunks each row is cut; 1 where that does not pay."""
    kept = numel([size for dim, size in enumerate(x.sizes) if dim not in dims]).as_int()
    row = numel([x.sizes[dim] for dim in dims]).as_int()
    trailing = sorted(dims) == list(range(x.ndim - len(dims), x.ndim))
    if x.device.type != "cuda" or kind not in ASSOCIATIVE or not trailing or not kept or not row or kept >= ENOUGH:
        return 1
    most = min(PROGRAMS // kept, row // SHORTEST)
    return next((count for count in range(most, 3, -1) if row % count == 0), 1)


def chunked_sizes(x: Tensor, dims: Sequence[int], chunks: int) -> tuple[Index, ...]:
    """The sizes of ``x`` with its rows as chunks by elements."""
    row = numel([x.sizes[dim] for dim in dims]).as_int()
    assert row is not None
    return (*x.sizes[: x.ndim - len(dims)], Index.of(chunks), Index.of(row // chunks))
