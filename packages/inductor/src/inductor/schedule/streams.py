"""Prefetches: the memory that a vectorised loop asks for ahead of time.

Arithmetic between reads keeps a processor from looking far enough ahead by itself: it then waits for memory and
computes in turn, where it could do both at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inductor import costs
from inductor.deps import expressions
from inductor.ir.expr import Expr, Load, Masked, children
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import Kernel, Loop, Store
from inductor.ir.layout import Stream


def streams(kernel: Kernel, loop: Loop, axes: Sequence[Symbol]) -> tuple[tuple[Stream, ...], tuple[Stream, ...]]:
    """The accesses of a loop to prefetch, reads and writes, as the last of ``axes`` runs inside the others.  Those that
    an earlier loop of the kernel has made lie in the cache already.

    What an earlier loop of the kernel has been through lies in the cache already.
    """
    if _is_small(kernel):
        return (), ()
    sizes = {argument.name: argument.dtype.itemsize for argument in kernel.arguments}
    before = kernel.loops[: kernel.loops.index(loop)]
    known = {stream for other in before for stream in (*_read(other), *_written(other))}
    runs = [
        [one for one in dict.fromkeys(found) if one not in known and _is_long(one[1], axes, sizes[one[0]])]
        for found in (_read(loop), _written(loop))
    ]
    # A line that is written is fetched by its write.
    written = {buffer for buffer, _ in runs[1]}
    return tuple(one for one in runs[0] if one[0] not in written), tuple(runs[1])


def _is_small(kernel: Kernel) -> bool:
    """True if all of a kernel's memory fits the cache."""
    total = sum((argument.numel * argument.dtype.itemsize for argument in kernel.arguments), Index.of(0)).as_int()
    return total is not None and total < costs.CPU.smallest_stream


def _is_long(index: Index, axes: Sequence[Symbol], itemsize: int) -> bool:
    """True if neighbours follow one another for long enough: along the last axis, and on into the next row where rows
    are adjacent."""
    if index.stride_of(axes[-1]) != 1:
        return False
    run = Index.of(1)
    for axis in reversed(axes):
        assert axis.size is not None
        if index.stride_of(axis) != run:
            break
        run = run * axis.size
    length = run.as_int()
    return length is None or length * itemsize >= costs.CPU.shortest_stream


def _read(loop: Loop) -> Iterator[Stream]:
    """The loads of a loop; masked ones are left out, as their memory may not exist."""
    seen: set[int] = set()
    stack: list[Expr] = [tree for statement in reversed(loop.body) for tree in expressions(statement)]
    while stack:
        node = stack.pop()
        if id(node) in seen or isinstance(node, Masked):
            continue
        seen.add(id(node))
        if isinstance(node, Load) and not node.bindings:
            yield node.buffer, node.index
        stack.extend(children(node))


def _written(loop: Loop) -> Iterator[Stream]:
    for statement in loop.body:
        if isinstance(statement, Store) and not statement.bindings and statement.mask is None:
            yield statement.buffer, statement.index
