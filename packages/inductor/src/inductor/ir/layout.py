"""Layouts of kernels on their targets: decided in ``schedule/``, carried by the kernel, read by printers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from inductor.ir.expr import Load
from inductor.ir.index import Index, Symbol

TILE_NAMES = ("x", "y", "z")
"""What the dimensions of a block are called, the fastest first."""


def product(axes: Sequence[Symbol]) -> Index:
    """How many elements the axes have together."""
    total = Index.of(1)
    for axis in axes:
        assert axis.size is not None
        total = total * axis.size
    return total


# -- CPUs -------------------------------------------------------------------------------------------------------------

VectorOver = Literal["columns", "rows", "nothing"]

Stream: TypeAlias = tuple[str, Index]
"""A buffer and the element of it that an iteration is at."""


@dataclass(frozen=True, slots=True)
class LoopLayout:
    """How a loop of a kernel runs on a CPU.

    ``in_lanes`` where its last axis runs along the lanes of vectors, ``side_by_side`` of which have accumulators that
    take turns; ``read`` and ``written`` are asked for ahead of time.  Where it does not run along lanes and ``pieces``
    is given, it is done in so many, whose lengths are multiples of ``unit``, with accumulators of their own; but whole
    where it has fewer than ``whole_below`` elements when it runs.  ``shared`` where threads share its iterations, or
    pieces.  ``split`` where sums of floats are kept in parts, ``split_in_lanes`` where those of lanes are."""

    in_lanes: bool = False
    side_by_side: int = 1
    read: tuple[Stream, ...] = ()
    written: tuple[Stream, ...] = ()
    pieces: int | None = None
    unit: int = 1
    whole_below: int | None = None
    shared: bool = False
    split: bool = False
    split_in_lanes: bool = False


@dataclass(frozen=True, slots=True)
class CpuLayout:
    """How a kernel runs on a CPU; ``loops`` says more about each of its loops.

    ``vector`` says which axis runs along the lanes of vectors of ``width`` elements: ``columns`` the kernel's last,
    ``rows`` the last of each reduction loop.  Where ``band`` is given so many rows are done together, and the reads
    ``transposed`` are loaded in squares and transposed in registers.  ``shared`` says which of the kernel's own loops
    the threads of a team that calls it share: all but that along the lanes (``outer``), or that one (``lanes``).
    ``atomic`` where several threads may add to one place.  ``checked`` where positions come from tensors and those
    outside of their axis are noted.  ``work`` is about how many instructions the kernel takes, ``elementary`` how many
    functions that take a page of instructions it mentions."""

    vector: VectorOver
    width: int
    loops: tuple[LoopLayout, ...]
    work: Index
    band: int | None = None
    transposed: tuple[Load, ...] = ()
    shared: Literal["outer", "lanes"] | None = None
    atomic: bool = True
    checked: bool = False
    elementary: int = 0

    @property
    def team(self) -> bool:
        """Whether the threads of a team that calls the kernel share its iterations."""
        return self.shared is not None

    @property
    def threaded(self) -> bool:
        """Whether it starts threads itself, and is given their number."""
        return any(loop.shared for loop in self.loops)


# -- GPUs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a product is tiled: each makes blocks of ``rows`` by ``columns`` elements, ``inner`` terms of
    their sums at a time, with ``stages`` of them on their way from memory.  Programs go down ``group`` blocks before
    the next column of blocks; ``persistent`` programs do all blocks in turn, or where None each block has its own."""

    rows: int = 128
    columns: int = 128
    inner: int = 64
    warps: int = 8
    stages: int = 3
    group: int = 8
    persistent: int | None = None


@dataclass(frozen=True, slots=True)
class Tile:
    """Axes walked as one, ``block`` positions at a time: a dimension of the blocks, or where ``block`` is None one
    position per program and no dimension."""

    name: str
    axes: tuple[Symbol, ...]
    block: int | None

    @property
    def extent(self) -> Index:
        return product(self.axes)

    @property
    def count(self) -> Index:
        """How many blocks cover the axes."""
        return self.extent if self.block is None else (self.extent + (self.block - 1)) // self.block

    @property
    def is_covered(self) -> bool:
        """Whether every block is full."""
        return self.block is None or self.extent.divisible_by(self.block) is not None


@dataclass(frozen=True, slots=True)
class Shape:
    """The block of a program and its warps.  ``tiles`` cover the kernel's axes, the fastest last; ``r`` is how much of
    a row is read at once, None where nothing is reduced, all of it where the shape ``keeps_rows``.  ``tiling`` is that
    of kernels that begin with a product, ``elements`` how many there are for each member where a kernel has some."""

    tiles: tuple[Tile, ...]
    r: int | None
    warps: int
    keeps_rows: bool = False
    tiling: Tiling | None = None
    elements: tuple[int, ...] = ()

    @property
    def constants(self) -> dict[str, int]:
        """What the kernel is given at compile time: the sizes of its blocks, by the names it has for them."""
        return self.sides if self.tiling is None else self.sides | {"KBLOCK": self.tiling.inner}

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of the block's dimensions, in their order."""
        names = tuple(tile.name for tile in self.tiles if tile.block is not None)
        return names if self.r is None else (*names, "r")

    @property
    def sides(self) -> dict[str, int]:
        """The sizes of the block in the order of its dimensions."""
        blocks = {f"{tile.name.upper()}BLOCK": tile.block for tile in self.tiles if tile.block is not None}
        return blocks if self.r is None else blocks | {"RBLOCK": self.r}

    def with_blocks(self, blocks: Mapping[str, int], warps: int) -> Shape:
        """The same axes in blocks of other sizes, given by the names of ``constants``."""
        tiles = tuple(replace(tile, block=blocks.get(f"{tile.name.upper()}BLOCK")) for tile in self.tiles)
        return replace(self, tiles=tiles, r=blocks.get("RBLOCK"), warps=warps)

    @property
    def programs(self) -> Index:
        """How many programs the kernel needs."""
        if self.tiling is not None and self.tiling.persistent is not None:
            return Index.of(self.tiling.persistent)
        return self.blocks

    @property
    def blocks(self) -> Index:
        """How many blocks there are to do."""
        if self.elements:
            return Index.of(sum(self.programs_of(elements) for elements in self.elements))
        total = Index.of(1)
        for tile in self.tiles:
            total = total * tile.count
        return total

    def programs_of(self, elements: int) -> int:
        """How many programs a member of so many elements needs."""
        return -(-elements // self.constants["XBLOCK"])


Layout: TypeAlias = CpuLayout | Shape
