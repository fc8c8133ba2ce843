"""The block that each program of a Triton kernel works on: the axes it spans, its sides, and its warps.

A pure decision over the kernel, made from its strides.  Memory is read at full speed along the axis where neighbours
lie side by side; where operands disagree about that axis, as in a transpose, the block spans both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product as combinations

from inductor import costs
from inductor.deps import loads_of, stores_of
from inductor.ir.index import Index, Symbol, loop_variable
from inductor.ir.kernel import Kernel, Product
from inductor.ir.layout import TILE_NAMES, Shape, Tile, product
from inductor.schedule.profit import points
from inductor.schedule.together import elements_of


def choose_shape(kernel: Kernel) -> Shape:
    """The first guess at a shape: enough bytes per program to hide latency, rows in registers where they fit."""
    if kernel.product is not None:
        return _multiplying_shape(kernel, kernel.product)
    if kernel.members:
        return _shape_of_members([elements_of(member) for member in kernel.members])
    sides = _bytes_side_by_side(kernel)
    groups = _groups(kernel, sides)
    if any(loop.axes for loop in kernel.loops):
        return _reducing_shape(kernel, groups, sides)
    if len(groups) == 1:
        block = min(_elementwise_block(kernel), _power_of_two(groups[0]))
        return _shape(groups, (block,), None, max(1, min(costs.GPU.warps, block // costs.GPU.elements_per_warp)))
    if len(_dimensions(groups)) == len(TILE_NAMES):
        return _shape(groups, (costs.GPU.cube,) * 3, None, costs.GPU.many_warps)
    # Operands disagree about the fast axis: a square reads both ways in full cache lines.
    side = costs.GPU.square if _widest(kernel) <= 2 else costs.GPU.square // 2
    return _shape(groups, (side, costs.GPU.square), None, costs.GPU.many_warps)


def _shape_of_members(elements: Sequence[int]) -> Shape:
    most = loop_variable("i0", max(elements))
    return replace(_shape(((most,),), (costs.GPU.block,), None, costs.GPU.warps), elements=tuple(elements))


def _elementwise_block(kernel: Kernel) -> int:
    """The elements per program of an elementwise kernel.  Of two bytes, twice as many are two loads of 16 bytes per
    thread; many operands are enough loads in flight as they are."""
    many = points(kernel.axes) >= costs.GPU.many_elements and len(kernel.arguments) <= costs.GPU.few_operands
    return costs.GPU.block * (2 if many and _widest(kernel) <= 2 else 1)


def _widest(kernel: Kernel) -> int:
    """The size of the largest element that is read."""
    return max((load.dtype.itemsize for load in loads_of(kernel.loops)), default=4)


# -- which axes -------------------------------------------------------------------------------------------------------


def _bytes_side_by_side(kernel: Kernel) -> Counter[Symbol]:
    """The bytes read and written along each axis at stride 1."""
    places: set[tuple[str, Index, int]] = set()
    dtypes = {argument.name: argument.dtype for argument in kernel.arguments}
    for load in loads_of(kernel.loops):
        places.add((load.buffer, load.index, load.dtype.itemsize))
    for store in stores_of(kernel.loops):
        places.add((store.buffer, store.index, dtypes[store.buffer].itemsize))
    axes = [*kernel.axes, *dict.fromkeys(axis for loop in kernel.loops for axis in loop.axes)]
    total: Counter[Symbol] = Counter()
    for _, index, width in places:
        moved = [axis for axis in axes if axis in index.symbols]
        for axis in moved:
            # The bytes that the access touches in all, over the axes it moves along.
            if index.stride_of(axis) == 1 and points([axis]) > 1:
                total[axis] += width * points(moved)
    return total


def _groups(kernel: Kernel, sides: Counter[Symbol]) -> tuple[tuple[Symbol, ...], ...]:
    """The kernel's axes by tile: those that share the last dimension, each that has one of its own, from the fastest
    to the slowest, and what is left."""
    *others, last = kernel.axes or (None,)
    if last is None or points([last]) < costs.GPU.shortest_side:
        return (kernel.axes,)
    # Few bytes along an axis do not pay for a dimension that makes all other blocks smaller.
    enough = sum(sides.values()) / costs.GPU.worth_a_dimension
    wanted = [
        axis
        for axis in others
        if axis is not None and sides[axis] >= enough and points([axis]) >= costs.GPU.shortest_side
    ]
    wanted = sorted(sorted(wanted, key=lambda axis: -sides[axis])[: len(TILE_NAMES) - 1], key=kernel.axes.index)
    if not wanted:
        return (kernel.axes,)
    behind = kernel.axes[kernel.axes.index(wanted[-1]) + 1 :]
    rest = tuple(axis for axis in kernel.axes if axis not in wanted and axis not in behind)
    return (behind, *((axis,) for axis in reversed(wanted)), rest)


def _dimensions(groups: Sequence[Sequence[Symbol]]) -> Sequence[Sequence[Symbol]]:
    """The groups that become dimensions of the block: all, if there is only one, else all but the last."""
    return groups[:-1] if len(groups) > 1 else groups


def _shape(groups: Sequence[tuple[Symbol, ...]], blocks: Sequence[int], r: int | None, warps: int) -> Shape:
    """``blocks`` belong to the groups in their order; none is larger than what it covers needs."""
    dimensions = _dimensions(groups)
    tiles = [
        Tile(name, tuple(axes), min(block, _power_of_two(axes)))
        for name, axes, block in zip(TILE_NAMES, dimensions, blocks, strict=False)
    ]
    if len(groups) > 1 and groups[-1]:
        tiles.append(Tile("outer", groups[-1], None))
    return Shape(tuple(reversed(tiles)), r, warps)


def _power_of_two(size: int | Sequence[Symbol]) -> int:
    """The next power of two; axes of dynamic size are assumed to be long."""
    number = size if isinstance(size, int) else points(size)
    return 1 << max(0, (number - 1).bit_length())


# -- reductions -------------------------------------------------------------------------------------------------------


def _reducing_shape(kernel: Kernel, groups: tuple[tuple[Symbol, ...], ...], sides: Counter[Symbol]) -> Shape:
    """The shape of a kernel with reductions, along rows or down columns."""
    passes = [loop for loop in kernel.loops if loop.axes]
    lengths = [product(loop.axes).as_int() for loop in passes]
    longest = max((costs.GPU.persistent + 1 if length is None else length) for length in lengths)
    if len(groups) > 1:
        cube = costs.GPU.cube
        return _shape(groups, (cube, cube, cube // 2), cube, costs.GPU.many_warps)
    along_rows = sum(sides[axis] for axis in {axis for loop in passes for axis in loop.axes})
    along_columns = sides[kernel.axes[-1]] if kernel.axes else 0
    if along_columns > along_rows:
        return _columns(groups, longest, len(passes), _width(kernel))
    if longest > costs.GPU.persistent:
        r = costs.GPU.persistent if _widest(kernel) <= 2 else costs.GPU.persistent // 2
        enough = points(kernel.axes) >= costs.GPU.programs
        return _shape(groups, (1,), r, costs.GPU.many_warps if enough else costs.GPU.most_warps)
    r = _power_of_two(longest)
    x = max(1, costs.GPU.block // r)
    if along_columns * costs.GPU.worth_a_dimension > along_rows:  # results lie side by side across rows
        x = max(x, min(costs.GPU.shortest_side, costs.GPU.registers // r))
    x = min(x, _power_of_two(kernel.axes))
    warps = max(1, min(costs.GPU.most_warps, x * r * _widest(kernel) // costs.GPU.bytes_per_warp))
    return replace(_shape(groups, (x,), r, warps), keeps_rows=True)


def _columns(groups: tuple[tuple[Symbol, ...], ...], longest: int, passes: int, width: int) -> Shape:
    """The shape of a reduction over columns, with neighbouring columns side by side.  A column that is read again stays
    in registers if a few fit."""
    r = _power_of_two(longest)
    x = min(costs.GPU.line // width, _power_of_two(groups[0]))
    few = points(groups[0]) < costs.GPU.few_programs * x  # so few wait for memory, not it for them
    at_once = few and r * x <= costs.GPU.registers
    if r * x * width > 2 * costs.GPU.in_flight and (passes == 1 or costs.GPU.registers // r < 8) and not at_once:
        r = costs.GPU.in_flight // (x * width)
    # Read more than once, the columns stay in registers, and fewer stand side by side.
    elif r * x > costs.GPU.registers:
        x = costs.GPU.registers // r
    return replace(_shape(groups, (x,), r, _warps(x * r)), keeps_rows=r >= longest)


def _width(kernel: Kernel) -> int:
    """The size of an element read along the last axis, at most that of single precision."""
    along = [load.dtype.itemsize for load in loads_of(kernel.loops) if kernel.axes[-1] in load.index.symbols]
    return min(4, max(along, default=4))


def _warps(elements: int) -> int:
    return max(1, min(costs.GPU.most_warps, elements // costs.GPU.sums_per_warp))


# -- products ---------------------------------------------------------------------------------------------------------


def _multiplying_shape(kernel: Kernel, made: Product) -> Shape:
    """The shape of a kernel that begins with a product, from the product's tiling."""
    batch = kernel.axes[: len(kernel.axes) - len(made.rows) - len(made.columns)]
    tiles = [Tile("outer", batch, None)] if batch else []
    for name, axes, block in (("y", made.rows, made.tiling.rows), ("x", made.columns, made.tiling.columns)):
        tiles.append(Tile(name, axes, max(costs.GPU.smallest_factor, min(block, _power_of_two(axes)))))
    return Shape(tuple(tiles), None, made.tiling.warps, tiling=made.tiling)


# -- other shapes to try ----------------------------------------------------------------------------------------------


def candidates(shape: Shape) -> list[Shape]:
    """The shape and others like it: every side halved, doubled and doubled again, with half and twice the warps."""
    sides = [_around(shape, name, side) for name, side in shape.constants.items()]
    found = {shape: None}
    for blocks in combinations(*sides):
        elements = math.prod(blocks)
        if costs.GPU.smallest_tried <= elements <= costs.GPU.largest_tried or elements == math.prod(
            shape.constants.values()
        ):
            usual = _warps(elements)
            for warps in sorted({max(1, usual // 2), usual, min(16, usual * 2)}):
                found[shape.with_blocks(dict(zip(shape.constants, blocks, strict=True)), warps)] = None
    return list(found)


def _around(shape: Shape, name: str, side: int) -> list[int]:
    """Block sizes near ``side``, up to the size of its axes; a row that is in registers stays there."""
    if name == "RBLOCK":
        return [side] if shape.keeps_rows else [side // 2, side, side * 2]
    (tile,) = (tile for tile in shape.tiles if name == f"{tile.name.upper()}BLOCK")
    most = _power_of_two(tile.axes)
    return [size for size in (side // 4, side // 2, side, side * 2, side * 4) if 1 <= size <= most]
