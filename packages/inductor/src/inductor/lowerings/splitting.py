"""Reductions of many elements to few, split in two steps on GPUs, which want many programs at once.

One program per result, or per few columns of results, leaves a GPU idle where there are few: a sum of four million
numbers would run on one of its hundred processors, a sum of 4096 rows of 768 on twenty.  What is reduced is cut into
chunks, each chunk is reduced, and then what the chunks gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from inductor import costs
from inductor.ir.expr import Expr, loads
from inductor.ir.index import ONE, Index
from inductor.lowerings.algebra import Value
from inductor.lowerings.context import Context
from inductor.lowerings.sizes import contiguous_strides, numel
from inductor.lowerings.values import Tensor, as_index_value, positions, pure
from inductor.lowerings.views import reshape

CUTTABLE = frozenset({"sum", "prod", "max", "min", "any", "all", "welford"})

Reduction = tuple[str, Expr, torch.dtype]
Finish = Callable[..., Sequence[tuple[Expr, torch.dtype]]]


@dataclass(frozen=True, slots=True)
class Cut:
    """The way a reduction is cut into chunks.

    ``sizes`` are those of the input with one dimension in two; of these dimensions, ``first`` are reduced in each chunk
    and ``then`` are the chunks.
    """

    sizes: tuple[Index, ...]
    first: tuple[int, ...]
    then: tuple[int, ...]

    @property
    def chunks(self) -> int:
        """The number of chunks that make one result."""
        return _number([self.sizes[dim] for dim in self.then])

    @property
    def left(self) -> list[int]:
        """The dimensions of the intermediate result: those not reduced in the first step."""
        return [dim for dim in range(len(self.sizes)) if dim not in self.first]

    @property
    def strides(self) -> tuple[Index, ...]:
        """The strides of the intermediate result: chunk after chunk, so that results of neighbours lie side by side."""
        order = sorted(self.left, key=lambda dim: dim not in self.then)
        steps = dict(zip(order, contiguous_strides(tuple(self.sizes[dim] for dim in order)), strict=True))
        return tuple(steps[dim] for dim in self.left)

    @property
    def length(self) -> int:
        """The number of elements of a chunk."""
        return _number([self.sizes[dim] for dim in self.first])


def _number(sizes: Sequence[Index]) -> int:
    known = numel(sizes).as_int()
    assert known is not None
    return known


def reduce(
    ctx: Context, x: Tensor, dims: Sequence[int], reductions: Sequence[Reduction], finish: Finish,
    keepdim: bool = False,
) -> list[Tensor]:  # fmt: skip
    """``Context.reduce``, in two steps where that pays."""
    cut = cut_of(x, [kind for kind, _, _ in reductions], dims)
    if cut is None:
        return ctx.reduce(x, dims, reductions, finish, keepdim)
    inside = [(kind, reshape(pure(x, value), cut.sizes).expr, dtype) for kind, value, dtype in reductions]
    parts = ctx.reduce(
        reshape(x, cut.sizes), cut.first, inside, lambda *results: list(_stored(reductions, results)),
        strides=cut.strides,
    )  # fmt: skip
    made = ctx.reduce(
        parts[0], [cut.left.index(dim) for dim in cut.then], list(_of_chunks(reductions, parts)),
        lambda *results: finish(*_outcomes(reductions, results, cut.length)),
    )  # fmt: skip
    if not keepdim:
        return made
    kept = [ONE if dim in dims else size for dim, size in enumerate(x.sizes)]
    return [reshape(result, kept) for result in made]


def _stored(reductions: Sequence[Reduction], results: Sequence[Expr]) -> Iterator[tuple[Expr, torch.dtype]]:
    """The results of each chunk to keep; for welford without the count, which is known."""
    given = iter(results)
    for kind, _, dtype in reductions:
        yield next(given), dtype
        if kind == "welford":
            yield next(given), dtype
            next(given)


def _of_chunks(reductions: Sequence[Reduction], parts: Sequence[Tensor]) -> Iterator[Reduction]:
    """The reductions of the second step, over the results of the chunks."""
    given = iter(parts)
    for kind, _, dtype in reductions:
        yield kind, next(given).expr, dtype
        if kind == "welford":
            yield "sum", next(given).expr, dtype


def _outcomes(reductions: Sequence[Reduction], results: Sequence[Expr], length: int) -> Iterator[Expr]:
    """The results of the whole reduction from those of the second step.  For welford: the sum of squared deviations is
    that within the chunks, plus that of the chunks' means, each counted as often as a chunk has elements."""
    given = iter(results)
    for kind, _, dtype in reductions:
        if kind != "welford":
            yield next(given)
            continue
        mean, between, chunks, within = (Value(next(given)) for _ in range(4))
        each = Value(as_index_value(Index.of(length), dtype))
        yield from (mean.expr, (within + between * each).expr, (chunks * each).expr)


# -- where ------------------------------------------------------------------------------------------------------------


def cut_of(x: Tensor, kinds: Sequence[str], dims: Sequence[int]) -> Cut | None:
    """The way to cut a reduction; None where cutting does not pay."""
    kept = numel([size for dim, size in enumerate(x.sizes) if dim not in dims]).as_int()
    reduced = numel([x.sizes[dim] for dim in dims]).as_int()
    if (
        x.device.type != "cuda"
        or not kept
        or not reduced
        or not CUTTABLE.issuperset(kinds)
        or reduced < costs.GPU.long_column
    ):
        return None
    by_rows = _lies_along(x, dims)
    if by_rows and reduced < costs.GPU.long_row:
        return None
    # Programs without cutting: one per row, or one per cache line of columns.
    programs = kept if by_rows else -(-kept // (costs.GPU.line // _width(x)))
    return _outermost(
        x,
        sorted(dims),
        min(
            costs.GPU.programs // programs,
            reduced // (costs.GPU.shortest_row_chunk if by_rows else costs.GPU.shortest_column_chunk),
        ),
    )


def _outermost(x: Tensor, dims: Sequence[int], most: int) -> Cut | None:
    """The cut into at most ``most`` chunks: whole dimensions from the outside, and a part of the next one that divides
    it."""
    chunks, whole = 1, list[int]()
    for dim in dims:
        size = _number([x.sizes[dim]])
        part = next(count for count in range(min(size, most // chunks), 0, -1) if size % count == 0) if most else 1
        chunks *= part
        if part == size:
            whole.append(dim)
            continue
        sizes = (*x.sizes[:dim], Index.of(part), Index.of(size // part), *x.sizes[dim + 1 :])
        moved = [other + (other > dim) for other in dims if other not in whole and other != dim]
        return Cut(sizes, (dim + 1, *moved), (*whole, dim)) if chunks > 1 else None
    return None


def _lies_along(x: Tensor, dims: Sequence[int]) -> bool:
    """True if the reduced elements lie side by side in memory: by bytes read, or where nothing tells, if the last
    dimension is reduced."""
    bytes_along: Counter[bool] = Counter()
    where = {position.as_symbol(): dim for dim, position in enumerate(positions(x.sizes))}
    for load in loads(x.expr):
        for symbol, dim in where.items():
            if symbol is not None and load.index.stride_of(symbol) == 1:
                bytes_along[dim in dims] += load.dtype.itemsize * len(load.index.symbols)
    if bytes_along:
        return bytes_along[True] >= bytes_along[False]
    return max(dims) == x.ndim - 1


def _width(x: Tensor) -> int:
    """The bytes of an element in memory, at most those of single precision."""
    read = {load.dtype.itemsize for load in loads(x.expr)}
    return min(4, max(read, default=x.dtype.itemsize))
