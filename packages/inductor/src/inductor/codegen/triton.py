"""A kernel as a Triton function: its axes along the tiles of its shape, the axes of a loop along r.

Where a row fits one block, nothing is looped and what one pass has read the next one still has; otherwise each loop of
the kernel is a pass over the row.

A program works on one block: a tile of the kernel's axes, flattened to one position per tile (``x_index``,
``y_index``), and along r a row or a piece of it.  Triton sees tensors of one shape; which of their elements exist is
said by masks (``Inside``).  The text of a softmax over rows of 1000, which fit a block of 1024:

    x_index = tl.program_id(0)
    r_index = tl.arange(0, RBLOCK)
    r_inside = r_index < 1000
    ... load with r_inside; max_along; exp; sum_along; store with r_inside
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from inductor.codegen import triton_dialect
from inductor.codegen.expressions import Precedence, Text, index_text
from inductor.codegen.printer import Lines, Names
from inductor.codegen.triton_dialect import DTYPES
from inductor.codegen.triton_members import print_members
from inductor.codegen.triton_values import Block, BlockScope, Grid, Inside, cast_block
from inductor.deps import checks_positions, indices_of
from inductor.ir.expr import Expr, IndexValue, Load, substitute
from inductor.ir.index import Index, Symbol, loop_variable
from inductor.ir.kernel import PRODUCT, Kernel, Let, Loop, Product, Reduce, Scan, Statement, Store
from inductor.ir.layout import TILE_NAMES, Shape, Tiling, product
from inductor.ir.ops import POSITIONS

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

from inductor.runtime.triton_math import *  # noqa: F403
"""


@dataclass(frozen=True, slots=True)
class PrintedTritonKernel:
    """A kernel's text in two parts: ``parameters`` in parentheses, and the ``body`` of the function.  ``checked`` where
    it asserts that positions read from tensors are inside their axes."""

    kernel: Kernel
    parameters: str
    body: str
    checked: bool

    @property
    def text(self) -> str:
        origins = f"    # {', '.join(self.kernel.origins)}\n" if self.kernel.origins else ""
        return f"{_heading(self.kernel.name, self.parameters)}{origins}{self.body}"

    @property
    def content(self) -> str:
        """The text without the kernel's own name and operators: equal contents are one kernel."""
        return f"{_heading('kernel', self.parameters)}{self.body}"

    @property
    def shape(self) -> Shape:
        """The blocks that its programs work on."""
        return self.kernel.shape


def print_kernel(kernel: Kernel) -> PrintedTritonKernel:
    """The Triton text of a kernel with a shape."""
    return _TritonPrinter(kernel, kernel.shape).print()


def _heading(name: str, parameters: str) -> str:
    return f"@triton.jit\ndef {name}({parameters}):\n"


# -- text -------------------------------------------------------------------------------------------------------------

_ALONG = {
    "sum": "sum_along",
    "prod": "product_along",
    "max": "max_along",
    "min": "min_along",
    "any": "any_along",
    "all": "all_along",
    "xor_sum": "xor_along",
    "argmax": "argmax_along",
    "argmin": "argmin_along",
}
"""The functions of ``runtime/triton_math`` that reduce a block along its last dimension, by reduction."""
_BEATS = {"argmax": "beats_max", "argmin": "beats_min"}
"""The functions that tell whether a value and its position win against the best so far: ties go to the smaller
position, as in eager."""


class _TritonPrinter:
    """One kernel being printed."""

    def __init__(self, kernel: Kernel, shape: Shape) -> None:
        self.kernel = kernel
        self.shape = shape
        self.lines = Lines()
        self.names = Names(_names_in(kernel))
        self.dtypes = {argument.name: argument.dtype for argument in kernel.arguments}
        # Positions have 32 bits unless some buffer needs more.
        self.wide = ".to(tl.int64)" if _is_huge(kernel) else ""
        self.dimensions = shape.dimensions
        # How many dimensions stay after a reduction: all but r.
        self.kept = len(self.dimensions) - (shape.r is not None)
        self.block = f"[{', '.join(shape.sides)}]"
        extents = {product(loop.axes) for loop in kernel.loops if loop.axes}
        # Every row fits its block: one step, no loop, and values stay in registers from one pass to the next.
        self.persistent = shape.r is not None and all(_is_at_most(extent, shape.r) for extent in extents)
        # Then one range along r serves all loops, and what one of them has read the next need not read again.
        self.one_row = len(extents) <= 1
        self.grid = _grid(kernel, shape)
        # Symbols that some index still mentions once tiles are walked as one: only these get variables.
        self.named = {symbol for index in indices_of(kernel.passes) for symbol in self.grid.flattened(index).symbols}

    def print(self) -> PrintedTritonKernel:
        parameters = [argument.name for argument in self.kernel.arguments] + [size.name for size in self.kernel.sizes]
        parameters += [f"{name}: tl.constexpr" for name in self.shape.constants]
        with self.lines.deeper():
            if self.kernel.members:
                print_members(self.lines, self.kernel, self.shape, self._member)
            elif self.shape.tiling is not None and self.shape.tiling.persistent is not None:
                # A fixed number of programs, each of which goes from block to block.
                blocks = _text(self.shape.blocks)
                with self.lines.block(f"for program in range(tl.program_id(0), {blocks}, tl.num_programs(0)):"):
                    self._program("program")
            else:
                self._program("tl.program_id(0)")
        checked = any(checks_positions(kernel.passes) for kernel in self.kernel.members or (self.kernel,))
        return PrintedTritonKernel(self.kernel, ", ".join(parameters), str(self.lines), checked)

    def _member(self, kernel: Kernel, shape: Shape) -> None:
        """Prints the work on one block of a member."""
        # Members print into the text of the whole, each with its own names, grid and masks.
        printer = _TritonPrinter(kernel, shape)
        printer.lines = self.lines
        printer._program("block")

    def _program(self, place: str) -> None:
        """Prints the work on the block at ``place``."""
        self.inside = self.in_row = self._tiles(place + self.wide)
        scope = BlockScope(self.lines, self.names, self.grid, self.inside, {})
        if self.kernel.product is not None:
            self._product(self.kernel.product, scope)
        first = next((loop for loop in self.kernel.loops if loop.axes), None)
        if self.persistent and self.one_row and first is not None:
            self.in_row = self._r(first)
        for loop in self.kernel.loops:
            self._loop(loop, scope)

    # -- positions ----------------------------------------------------------------------------------------------------

    def _tiles(self, place: str) -> Inside:
        """Prints the positions of the program's block along each tile; returns the condition for them to exist."""
        # Used once per tile: it gets a name.
        if len(self.shape.tiles) > 1 and place != "program":
            self.lines.line(f"program = {place}")
            place = "program"
        conditions: dict[str, str] = {}
        places = self._places(place) if self.shape.tiling is None else self._places_in_groups(self.shape.tiling)
        for tile, text in zip(reversed(self.shape.tiles), places, strict=True):
            if tile.block is not None:
                text += f" * {tile.name.upper()}BLOCK + {self._range(tile.name)}"
            self.lines.line(f"{tile.name}_index = {text}")
            # A tile whose extent the block divides needs no mask.
            if not tile.is_covered:
                self.lines.line(f"{tile.name}_inside = {tile.name}_index < {_text(tile.extent)}")
                conditions[tile.name] = f"{tile.name}_inside"
            self._axes(f"{tile.name}_index", tile.axes)
        return self._all_of(conditions, "tile_inside")

    def _places(self, place: str) -> Iterator[str]:
        """The number of the program's block along each tile, the fastest's changing from each program to the next."""
        inner = Index.of(1)
        for tile in reversed(self.shape.tiles):
            text = place if inner == 1 else f"{place} // {_text(inner).within(Precedence.ATOM)}"
            yield text if tile is self.shape.tiles[0] else f"{text} % {_text(tile.count).within(Precedence.ATOM)}"
            inner = inner * tile.count

    def _places_in_groups(self, tiling: Tiling) -> Iterator[str]:
        """The places of a product's blocks: those made at one time need few rows and columns of the factors."""
        rows, columns = (tile.count for tile in self.shape.tiles[-2:])
        place, each = "program", _text(rows * columns).within(Precedence.ATOM)
        if len(self.shape.tiles) > 2:
            place = f"program % {each}"
        self.lines.line(f"y_place, x_place = in_groups({place}, {_text(rows)}, {_text(columns)}, {tiling.group})")
        yield "x_place"
        yield "y_place"
        if len(self.shape.tiles) > 2:
            yield f"program // {each}"

    def _r(self, loop: Loop, start: str = "") -> Inside:
        """Prints the positions along a row, or the part of it that begins at ``start``; returns the condition for them
        to exist."""
        extent = product(loop.axes)
        self.lines.line(f"r_index = {start}{self._range('r')}{self.wide}")
        conditions = dict(self.inside.conditions)
        assert self.shape.r is not None
        # Of an empty row every element is outside.
        if extent == 0 or extent.divisible_by(self.shape.r) is None:
            self.lines.line(f"r_inside = r_index < {_text(extent)}")
            conditions["r"] = "r_inside"
        self._axes("r_index", loop.axes)
        return self._all_of(conditions, "inside") if "r" in conditions else self.inside

    def _all_of(self, conditions: Mapping[str, str], name: str) -> Inside:
        if len(conditions) < 2:
            return Inside(conditions, next(iter(conditions.values()), None))
        # The condition of the tile has a name already.
        kept = self.inside.whole if "r" in conditions else " & ".join(conditions.values())
        self.lines.line(f"{name} = {kept} & r_inside" if "r" in conditions else f"{name} = {kept}")
        return Inside(conditions, name)

    def _range(self, dimension: str) -> str:
        # In a block of several dimensions each range lies along its own: ``[:, None]`` and ``[None, :]``.
        text = f"tl.arange(0, {dimension.upper()}BLOCK)"
        if len(self.dimensions) == 1:
            return text
        return f"{text}[{', '.join(':' if other == dimension else 'None' for other in self.dimensions)}]"

    def _axes(self, flat: str, axes: Sequence[Symbol]) -> None:
        """Prints the variables of axes, from their flat position; those that nothing reads are left out."""
        inner = Index.of(1)
        for position, axis in reversed(list(enumerate(axes))):
            assert axis.size is not None
            divided = flat if inner == 1 else f"{flat} // {_text(inner).within(Precedence.ATOM)}"
            # The outermost quotient is below its size already, where the mask is true.
            text = divided if position == 0 else f"{divided} % {_text(axis.size).within(Precedence.ATOM)}"
            if axis in self.named:
                self.lines.line(f"{axis.name} = {text}")
            inner = inner * axis.size

    # -- products -----------------------------------------------------------------------------------------------------

    def _product(self, made: Product, scope: BlockScope) -> None:
        """Prints the loop that multiplies the block of a product."""
        assert made.inner.size is not None
        self.lines.line(f"{PRODUCT} = tl.zeros({self.block}, tl.float32)")
        with self.lines.block(f"for k_start in range(0, {_text(made.inner.size)}, KBLOCK):"):
            self._factor(made, made.left, "left", "[None, :]", "y")
            self._factor(made, made.right, "right", "[:, None]", "x")
            # Factors of float32 get here only where tf32 is allowed.
            precision = ', input_precision="tf32"' if made.dtype == torch.float32 else ""
            self.lines.line(f"{PRODUCT} = tl.dot(left, right, {PRODUCT}{precision})")
        scope.results[PRODUCT] = Block(Text(PRODUCT), torch.float32)

    def _factor(self, made: Product, value: Expr, side: str, laid: str, along: str) -> None:
        """Prints the load of a factor's block: zero behind the end of the sum, so that nothing is added there."""
        extent, at = made.inner.size, f"{side}_k"
        assert extent is not None
        assert self.shape.tiling is not None
        self.lines.line(f"{at} = k_start + tl.arange(0, KBLOCK){laid}{self.wide}")
        # A row's mask matters to the left factor alone, a column's to the right one.
        conditions = {tile: condition for tile, condition in self.inside.conditions.items() if tile == along}
        if extent.divisible_by(self.shape.tiling.inner) is None:
            self.lines.line(f"{side}_goes_on = {at} < {_text(extent)}")
            conditions["k"] = f"{side}_goes_on"
        # Each side has its own variable along k, as they lie along different dimensions of their blocks.
        symbol, whole = loop_variable(at, extent), " & ".join(conditions.values()) or None
        value = substitute(value, {made.inner: Index.of(symbol)})
        grid = replace(self.grid, dimensions={**self.grid.dimensions, symbol: "k"})
        scope = BlockScope(self.lines, self.names.inner(), grid, Inside(conditions, whole), {})
        if isinstance(value, Load):
            place = scope.index(value.index).within(Precedence.ADD)
            self.lines.line(f"{side} = tl.load({value.buffer} + {place}{f', {whole}, 0.0' if whole else ''})")
            return
        text = cast_block(scope.value(value), made.dtype).text
        self.lines.line(f"{side} = {f'tl.where({whole}, {text}, 0.0)' if whole else text}")

    # -- passes -------------------------------------------------------------------------------------------------------

    def _loop(self, loop: Loop, scope: BlockScope) -> None:
        # Statements between two passes: one value for each row.
        if not loop.axes:
            self._statements(loop.body, scope, self.dimensions[: self.kept])
            return
        reductions = [statement for statement in loop.body if isinstance(statement, Reduce)]
        if self.persistent:
            self._pass_in_registers(loop, scope)
        else:
            for reduction in reductions:
                self._start(reduction)
            for statement in loop.body:
                if isinstance(statement, Scan):
                    self._start_scan(statement)
            extent = _text(product(loop.axes))
            with self.lines.block(f"for r_start in range(0, {extent}, RBLOCK):"):
                self.in_row = self._r(loop, "r_start + ")
                inner = BlockScope(self.lines, self.names.inner(), self.grid, self.in_row, dict(scope.results))
                self._statements(loop.body, inner, self.dimensions)
        for reduction in reductions:
            self._finish(reduction, scope)

    def _pass_in_registers(self, loop: Loop, scope: BlockScope) -> None:
        """Prints a pass over a row that fits its block: no loop, and values stay for the passes behind it."""
        if not self.one_row:
            self.in_row = self._r(loop)
        for statement in loop.body:
            if isinstance(statement, Reduce):
                self._start(statement)
        scope.inside = self.in_row
        # Names that the pass gave are local to it, though nothing is indented: behind it the block is without r again.
        outer = dict(scope.results)
        self._statements(loop.body, scope, self.dimensions)
        scope.results.clear()
        scope.results.update(outer)
        scope.inside = self.inside
        if not self.one_row:
            # Another pass runs along other axes: the same text now means other elements.
            scope.forget_loads()

    def _statements(self, body: Sequence[Statement], scope: BlockScope, spanned: Sequence[str]) -> None:
        scope.read_ahead(body)
        for statement in body:
            if isinstance(statement, Let):
                scope.let(statement.name, scope.value(statement.value))
            elif isinstance(statement, Reduce):
                self._accumulate(statement, scope)
            elif isinstance(statement, Scan):
                self._scan(statement, scope)
            else:
                self._store(statement, scope, spanned)

    # -- reductions ---------------------------------------------------------------------------------------------------

    def _start(self, statement: Reduce) -> None:
        name = statement.name
        value_type = DTYPES[statement.value.dtype if statement.kind in POSITIONS else statement.dtype]
        if statement.kind == "welford":
            # The block itself is what is accumulated: mean and deviations are taken from it at the end.
            if self.persistent:
                return
            for part in ("mean", "m2", "weight"):
                self.lines.line(f"{name}_{part}s = tl.zeros({self.block}, {value_type})")
            return
        start = _start_of(statement)
        self.lines.line(f"{name}_all = tl.full({self.block}, {start}, {value_type})")
        # No place yet: any real one is smaller.
        if statement.kind in POSITIONS:
            self.lines.line(f"{name}_at = tl.full({self.block}, {2**63 - 1}, tl.int64)")

    def _accumulate(self, statement: Reduce, scope: BlockScope) -> None:
        value = scope.named(scope.value(statement.value))
        name, kind, total = statement.name, statement.kind, f"{statement.name}_all"
        if kind == "welford":
            self._accumulate_welford(statement, value)
            return
        if kind in POSITIONS:
            at = scope.named(scope.value(IndexValue(self._position(statement), torch.int64)), "at")
            wins = self.names.fresh("wins")
            # What is outside never wins, whatever was loaded there.
            here = f"{self.in_row.whole} & " if self.in_row.whole else ""
            self.lines.line(f"{wins} = {here}{_BEATS[kind]}({value.text}, {at.text}, {total}, {name}_at)")
            self.lines.line(f"{total} = tl.where({wins}, {value.text}, {total})")
            self.lines.line(f"{name}_at = tl.where({wins}, {at.text}, {name}_at)")
            return
        self.lines.line(f"{total} = {self._where(_combined(kind, total, str(value.text)), total)}")

    def _where(self, text: str, other: str) -> str:
        """``text`` for the elements that exist."""
        whole = self.in_row.whole
        return text if whole is None else f"tl.where({whole}, {text}, {other})"

    def _start_scan(self, statement: Scan) -> None:
        """Prints the carry of a scan, from one block of a row to the next."""
        # One element per row: the last constant is RBLOCK.
        rows = ", ".join([*list(self.shape.constants)[:-1], "1"])
        start = f"{_start_of(statement)}, {DTYPES[statement.dtype]}"
        self.lines.line(f"{statement.name}_carry = tl.full([{rows}], {start})")

    def _scan(self, statement: Scan, scope: BlockScope) -> None:
        value, name, kind = scope.named(scope.value(statement.value)), statement.name, statement.kind
        there = f"tl.where({self._everywhere()}, {value.text}, {_start_of(statement)})"
        # Elements behind the end take part in a scan as in any operation on blocks: they are the neutral element.
        self.lines.line(f"{name}_in = {there}.to({DTYPES[statement.dtype]})")
        self.lines.line(f"{name} = running_{kind}({name}_in)")
        if not self.persistent:
            self.lines.line(f"{name} = {_combined(kind, f'{name}_carry', name)}")
            # After the block: what all of it comes to, for the blocks behind.
            self.lines.line(f"{name}_carry = {_combined(kind, f'{name}_carry', f'{_ALONG[kind]}({name}_in)')}")
        scope.results[name] = Block(Text(name), statement.dtype)

    def _accumulate_welford(self, statement: Reduce, value: Block) -> None:
        name = statement.name
        if self.persistent:
            # Elements outside are 0 and weigh nothing; ``deviations_along`` is told how many there are.
            self.lines.line(f"{name}_all = tl.where({self._everywhere()}, {value.text}, 0)")
            return
        mean, m2, weight = (f"{name}_{part}s" for part in ("mean", "m2", "weight"))
        before, share = self.names.fresh("before"), self.names.fresh("share")
        self.lines.line(f"{weight} += {self._where('1.0', '0.0')}")
        # What is inside has been since the first step, so its weight is the number of steps: one division for all.
        self.lines.line(f"{share} = tl.full([], 1.0, {DTYPES[statement.dtype]}) / (r_start // RBLOCK + 1)")
        # Welford's update, for each element of the block its own mean; they are joined at the end by ``welford_along``.
        self.lines.line(f"{before} = {value.text} - {mean}")
        self.lines.line(f"{mean} = {self._where(f'{mean} + {before} * {share}', mean)}")
        self.lines.line(f"{m2} = {self._where(f'{m2} + {before} * ({value.text} - {mean})', m2)}")

    def _everywhere(self) -> str:
        """A condition with the shape of the block."""
        whole = self.in_row.whole
        return f"tl.full({self.block}, True, tl.int1)" + (f" & {whole}" if whole else "")

    def _position(self, statement: Reduce) -> Index:
        # Row-major among the axes of its own loop, as ``Reduce`` promises.
        (loop,) = (loop for loop in self.kernel.loops if any(other is statement for other in loop.body))
        position = Index.of(0)
        for axis in loop.axes:
            assert axis.size is not None
            position = position * axis.size + Index.of(axis)
        return position

    def _finish(self, statement: Reduce, scope: BlockScope) -> None:
        name, dtype = statement.name, statement.dtype
        if statement.kind == "welford":
            parts = [f"{name}_{part}" for part in ("mean", "m2", "weight")]
            if self.persistent:  # the whole row is at hand: its mean first, then what deviates from it
                (loop,) = (loop for loop in self.kernel.loops if any(other is statement for other in loop.body))
                arguments = f"{name}_all, {self._everywhere()}, {_text(product(loop.axes))}"
                self.lines.line(f"{', '.join(parts)} = deviations_along({arguments})")
            else:
                self.lines.line(f"{', '.join(parts)} = welford_along({name}_means, {name}_m2s, {name}_weights)")
            scope.results.update({part: Block(Text(part), dtype) for part in parts})
            return
        arguments = f"{name}_all, {name}_at" if statement.kind in POSITIONS else f"{name}_all"
        scope.let(name, Block(Text(f"{_ALONG[statement.kind]}({arguments})"), dtype))

    # -- stores -------------------------------------------------------------------------------------------------------

    def _store(self, statement: Store, scope: BlockScope, spanned: Sequence[str]) -> None:
        """Prints a store; ``spanned`` are the dimensions of the stored elements."""
        value = cast_block(scope.value(statement.value), self.dtypes[statement.buffer])
        mask = scope.inside.whole
        if statement.mask is not None:
            own = str(scope.named(scope.value(statement.mask), "inside").text)
            mask = own if mask is None else f"{mask} & {own}"
        place = scope.index(statement.index, scope.bind(statement.bindings))
        met = {self.grid.dimensions.get(symbol) for symbol in statement.index.symbols}
        # A pointer has the axes that its index mentions; the value may have more, and Triton wants equal shapes.
        missing = "".join(f" + 0 * {dimension}_index" for dimension in spanned if dimension not in met)
        pointer = f"{statement.buffer} + {place.within(Precedence.ADD)}{missing}"
        function, order = "tl.store", ""
        if statement.mode != "set":  # nobody reads what others add before the kernel has ended
            function, order = f"tl.atomic_{statement.mode}", ', sem="relaxed"'
        self.lines.line(f"{function}({pointer}, {value.text}{f', {mask}' if mask else ''}{order})")
        # Somebody may read what was just stored.
        scope.forget_loads(statement.buffer)


def _grid(kernel: Kernel, shape: Shape) -> Grid:
    # Axes of a tile, then of each pass along r, with the one variable that runs through all of them.
    """The flat positions of a kernel's tiles and rows, and the dimension that each symbol moves along."""
    flats: list[tuple[tuple[Symbol, ...], Symbol]] = []
    dimensions: dict[Symbol, str] = {}
    rows = [("r", axes) for axes in dict.fromkeys(loop.axes for loop in kernel.loops if loop.axes)]
    for name, axes in [*((tile.name, tile.axes) for tile in shape.tiles), *rows]:
        flat = loop_variable(f"{name}_index", product(axes))
        flats.append((axes, flat))
        # An outer tile is one position for a program and no dimension of the block.
        if name != "outer":
            dimensions.update(dict.fromkeys((*axes, flat), name))
    numbers = frozenset(argument.name for argument in kernel.arguments if argument.number)
    return Grid(tuple(flats), dimensions, numbers)


def _is_at_most(extent: Index, limit: int) -> bool:
    known = extent.as_int()
    return known is not None and known <= limit


def _combined(kind: str, total: str, value: str) -> str:
    if kind in ("max", "min"):
        return f"{kind}imum({total}, {value})"
    return f"{total} {({'sum': '+', 'prod': '*', 'any': '|', 'all': '&', 'xor_sum': '^'})[kind]} {value}"


def _start_of(statement: Reduce | Scan) -> str:
    """The neutral element of a reduction."""
    kind, dtype = statement.kind, statement.value.dtype if statement.kind in POSITIONS else statement.dtype
    if kind in ("sum", "xor_sum"):
        return "0"
    if kind in ("any", "all"):
        return str(kind == "all")
    if kind == "prod":
        return "1"
    low = kind in ("max", "argmax")
    if dtype == torch.bool:
        return str(not low)
    if dtype.is_floating_point:
        return str(triton_dialect.literal(-math.inf if low else math.inf, dtype))
    return str(torch.iinfo(dtype).min if low else torch.iinfo(dtype).max)


def _names_in(kernel: Kernel) -> set[str]:
    names = {kernel.name, "inside", "tile_inside", "program", "r_start", "tl", "triton", "libdevice"}
    names |= {PRODUCT, "k_start", "left", "right", "left_k", "right_k", "x_place", "y_place"}
    names |= {f"{tile}_{what}" for tile in (*TILE_NAMES, "outer", "r") for what in ("index", "inside")}
    names |= {argument.name for argument in kernel.arguments} | {size.name for size in kernel.sizes}
    names |= {axis.name for axis in kernel.axes}
    for loop in kernel.loops:
        names |= {axis.name for axis in loop.axes}
        names |= {statement.name for statement in loop.body if isinstance(statement, Let | Reduce | Scan)}
    return names


def _is_huge(kernel: Kernel) -> bool:
    """True if positions need 64 bits."""
    numels = [argument.numel.as_int() for argument in kernel.arguments]
    return any(numel is None or numel >= 2**31 for numel in numels)


def _text(index: Index) -> Text:
    return index_text(index, triton_dialect.INDEX_STYLE)
