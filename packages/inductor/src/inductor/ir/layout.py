"""Layouts of kernels on their targets: decided in ``schedule/``, carried by the kernel, read by printers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from inductor.ir.expr import Load
from inductor.ir.index import Index, Symbol

TILE_NAMES = ("x", "y", "z")
"""The names of a block's dimensions, the fastest first."""


def product(axes: Sequence[Symbol]) -> Index:
    """The number of elements that the axes have together."""
    total = Index.of(1)
    for axis in axes:
        assert axis.size is not None
        total = total * axis.size
    return total


# -- CPUs -------------------------------------------------------------------------------------------------------------

VectorOver = Literal["columns", "rows", "nothing"]

Stream: TypeAlias = tuple[str, Index]
"""A buffer, and the index of the element in it that an iteration accesses: an access to prefetch."""


@dataclass(frozen=True, slots=True)
class LoopLayout:
    """The layout of one loop of a kernel on a CPU: lanes, pieces, threads and prefetches.

    ``in_lanes``: its last axis runs along the lanes of vectors, of which ``side_by_side`` have accumulators of their
    own, so that one does not wait for the other.  ``read`` and ``written`` are prefetched.  A loop that does not run
    along lanes may be cut into ``pieces`` with accumulators of their own, whose lengths are multiples of ``unit``; at
    run time it stays whole where it has fewer than ``whole_below`` elements.  ``shared``: threads share its iterations,
    or its pieces.  ``split``: its sums of floats are kept in parts, ``split_in_lanes``: those in the lanes of a vector
    are.
    """

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
    """The layout of a kernel on a CPU; ``loops`` has one for each of its loops.

    ``vector`` says which axis runs along the lanes of vectors of ``width`` elements: ``columns`` the kernel's last,
    ``rows`` the last of each reduction loop.  Where ``band`` is given so many rows are done together, and the reads
    ``transposed`` are loaded in squares and transposed in registers.  ``shared`` says which of the kernel's own loops
    the threads of a team that calls it share: all but that along the lanes (``outer``), or that one (``lanes``).
    ``atomic`` where several threads may add to one place.  ``checked`` where positions come from tensors and those
    outside of their axis are noted.  ``work`` is about how many instructions the kernel takes, ``elementary`` how many
    functions that take a page of instructions it mentions.
    """

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
        """True if the threads of the team that calls the kernel share its iterations."""
        return self.shared is not None

    @property
    def threaded(self) -> bool:
        """True if the kernel starts threads itself and takes their number as an argument."""
        return any(loop.shared for loop in self.loops)


# -- GPUs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiling of a product: each program computes blocks of ``rows`` by ``columns`` elements, ``inner`` terms of
    their sums at a time, with ``stages`` of these on their way from memory.  Programs go down ``group`` blocks before
    the next column of blocks, so that what they read stays in the cache; ``persistent`` programs do all blocks in turn,
    or where None each block has its own."""

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
        """The number of positions of its axes together."""
        return product(self.axes)

    @property
    def count(self) -> Index:
        """The number of blocks that cover the axes."""
        return self.extent if self.block is None else (self.extent + (self.block - 1)) // self.block

    @property
    def is_covered(self) -> bool:
        """True if every block is known to be full, so that no position needs a mask."""
        return self.block is None or self.extent.divisible_by(self.block) is not None


@dataclass(frozen=True, slots=True)
class Shape:
    """The layout of a kernel on a GPU: the block of a program and its warps.  ``tiles`` cover the kernel's axes, the
    fastest last; ``r`` is the part of a row that is read at once: None where nothing is reduced, all of it where the
    shape ``keeps_rows``.  ``tiling`` is that of a kernel that begins with a product, ``elements`` the number of
    elements of each member of a joint kernel."""

    tiles: tuple[Tile, ...]
    r: int | None
    warps: int
    keeps_rows: bool = False
    tiling: Tiling | None = None
    elements: tuple[int, ...] = ()

    @property
    def constants(self) -> dict[str, int]:
        """The compile-time constants of the kernel: the sizes of its blocks, by their names in its text."""
        return self.sides if self.tiling is None else self.sides | {"KBLOCK": self.tiling.inner}

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of the block's dimensions, in their order."""
        names = tuple(tile.name for tile in self.tiles if tile.block is not None)
        return names if self.r is None else (*names, "r")

    @property
    def sides(self) -> dict[str, int]:
        """The sizes of the block by constant name, in the order of its dimensions."""
        blocks = {f"{tile.name.upper()}BLOCK": tile.block for tile in self.tiles if tile.block is not None}
        return blocks if self.r is None else blocks | {"RBLOCK": self.r}

    def with_blocks(self, blocks: Mapping[str, int], warps: int) -> Shape:
        """This shape with blocks of other sizes, given by the names of ``constants``."""
        tiles = tuple(replace(tile, block=blocks.get(f"{tile.name.upper()}BLOCK")) for tile in self.tiles)
        return replace(self, tiles=tiles, r=blocks.get("RBLOCK"), warps=warps)

    @property
    def programs(self) -> Index:
        """The number of programs to launch: the persistent ones, or one for each block."""
        if self.tiling is not None and self.tiling.persistent is not None:
            return Index.of(self.tiling.persistent)
        return self.blocks

    @property
    def blocks(self) -> Index:
        """The number of blocks of work."""
        # A joint kernel has no tiles that cover all of it: the blocks of its members stand one after another.
        if self.elements:
            return Index.of(sum(self.programs_of(elements) for elements in self.elements))
        total = Index.of(1)
        for tile in self.tiles:
            total = total * tile.count
        return total

    def programs_of(self, elements: int) -> int:
        """The number of programs for a member with this many elements."""
        return -(-elements // self.constants["XBLOCK"])


Layout: TypeAlias = CpuLayout | Shape
