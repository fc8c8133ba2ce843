"""A kernel as a Triton function: its axes flattened along x, the axes of a loop along r.

A block is ``XBLOCK`` x ``RBLOCK``.  Where a row fits one block, nothing is looped and what one pass has read the next
one still has; otherwise each loop of the kernel is a pass over the row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from inductor.codegen import triton_dialect
from inductor.codegen.cpp_strategy import nodes
from inductor.codegen.expressions import Precedence, Text, index_text
from inductor.codegen.printer import Lines, Names
from inductor.codegen.triton_dialect import DTYPES
from inductor.codegen.triton_values import Block, BlockScope, cast_block
from inductor.ir.expr import IndexValue, Load
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import Kernel, Let, Loop, Reduce, Statement, Store

PERSISTENT = 8192
"""Rows up to this long are kept in registers."""

FEW_ROWS = 128
"""Fewer rows than this leave multiprocessors idle."""

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

from inductor.runtime.triton_math import *  # noqa: F403
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """The block each program works on, and its warps."""

    x: int
    r: int
    warps: int


@dataclass(frozen=True, slots=True)
class PrintedTritonKernel:
    """A kernel's text, how large its blocks are, and how many elements its x axis has (an index over ``sizes``)."""

    kernel: Kernel
    text: str
    shape: Shape
    numel: Index


def print_kernel(kernel: Kernel) -> PrintedTritonKernel:
    shape = choose_shape(kernel)
    return PrintedTritonKernel(kernel, _TritonPrinter(kernel, shape).print(), shape, _product(kernel.axes))


# -- shape ------------------------------------------------------------------------------------------------------------


def choose_shape(kernel: Kernel) -> Shape:
    """Good first guesses: enough bytes per program to hide latency, rows in registers where they fit."""
    reductions = [loop for loop in kernel.loops if loop.axes]
    numel = _product(kernel.axes).as_int()
    if not reductions:
        block = 1024 if numel is None else min(1024, _power_of_two(numel))
        return Shape(block, 1, 4 if block >= 512 else max(1, block // 128))
    longest = max((_product(loop.axes).as_int() or PERSISTENT + 1) for loop in reductions)
    if longest <= PERSISTENT:
        r = _power_of_two(longest)
        x = max(1, min(2048 // r, _power_of_two(numel or 2048)))
    else:
        r, x = (64, 32) if _reads_columns(kernel) else (4096, 1)
        x = min(x, _power_of_two(numel or x))
        if x == 1 and numel is not None and numel < FEW_ROWS:
            return Shape(1, 8192, 16)  # few programs run: each must keep much in flight
    return Shape(x, r, max(1, min(16, x * r // 512)))


def _reads_columns(kernel: Kernel) -> bool:
    """Whether neighbouring rows, not the elements of one, lie side by side."""
    if not kernel.axes:
        return False
    last = kernel.axes[-1]
    stores = [statement.index for loop in kernel.loops for statement in loop.body if isinstance(statement, Store)]
    return any(index.stride_of(last) == 1 for index in stores if last in index.symbols) and any(
        loop.axes and _row_stride(loop) != 1 for loop in kernel.loops
    )


def _row_stride(loop: Loop) -> int | None:
    for node in nodes(loop):
        if isinstance(node, Load) and loop.axes[-1] in node.index.symbols:
            stride = node.index.stride_of(loop.axes[-1])
            return None if stride is None else stride.as_int()
    return 1


def _power_of_two(number: int) -> int:
    return 1 << max(0, (number - 1).bit_length())


def _product(axes: Sequence[Symbol]) -> Index:
    total = Index.of(1)
    for axis in axes:
        assert axis.size is not None
        total = total * axis.size
    return total


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


class _TritonPrinter:
    """One kernel being printed."""

    def __init__(self, kernel: Kernel, shape: Shape) -> None:
        self.kernel = kernel
        self.shape = shape
        self.lines = Lines()
        self.names = Names(_names_in(kernel))
        self.dtypes = {argument.name: argument.dtype for argument in kernel.arguments}
        self.index_type = "tl.int64" if _is_huge(kernel) else "tl.int32"
        self.numel = _product(kernel.axes)
        extents = {_product(loop.axes) for loop in kernel.loops if loop.axes}
        self.persistent = all((extent.as_int() or PERSISTENT + 1) <= shape.r for extent in extents)
        self.one_row = len(extents) <= 1

    def print(self) -> str:
        parameters = [argument.name for argument in self.kernel.arguments] + [size.name for size in self.kernel.sizes]
        signature = ", ".join([*parameters, "XBLOCK: tl.constexpr", "RBLOCK: tl.constexpr"])
        self.lines.line("@triton.jit")
        with self.lines.block(f"def {self.kernel.name}({signature}):"):
            if self.kernel.origins:
                self.lines.line(f"# {', '.join(self.kernel.origins)}")
            self._x()
            scope = BlockScope(self.lines, self.names, "x_inside", {})
            if (
                self.persistent
                and self.one_row
                and (first := next((loop for loop in self.kernel.loops if loop.axes), None))
            ):
                self._r(first, "tl.arange(0, RBLOCK)[None, :]")
            for loop in self.kernel.loops:
                self._loop(loop, scope)
        return str(self.lines)

    def _x(self) -> None:
        start = "tl.program_id(0)" + (".to(tl.int64)" if self.index_type == "tl.int64" else "")
        self.lines.line(f"x_index = {start} * XBLOCK + tl.arange(0, XBLOCK)[:, None]")
        self.lines.line(f"x_inside = x_index < {_text(self.numel)}")
        self._axes("x_index", self.kernel.axes)

    def _axes(self, flat: str, axes: Sequence[Symbol]) -> None:
        """The axes' variables from their flat position."""
        inner = Index.of(1)
        for position, axis in reversed(list(enumerate(axes))):
            assert axis.size is not None
            divided = flat if inner == 1 else f"{flat} // {_text(inner).within(Precedence.ATOM)}"
            text = divided if position == 0 else f"{divided} % {_text(axis.size).within(Precedence.ATOM)}"
            self.lines.line(f"{axis.name} = {text}")
            inner = inner * axis.size

    def _r(self, loop: Loop, start: str) -> None:
        self.lines.line(f"r_index = {start}")
        self.lines.line(f"inside = x_inside & (r_index < {_text(_product(loop.axes))})")
        self._axes("r_index", loop.axes)

    # -- passes -------------------------------------------------------------------------------------------------------

    def _loop(self, loop: Loop, scope: BlockScope) -> None:
        if not loop.axes:
            self._statements(loop.body, scope, "x")
            return
        reductions = [statement for statement in loop.body if isinstance(statement, Reduce)]
        if self.persistent:
            self._pass_in_registers(loop, scope)
        else:
            for reduction in reductions:
                self._start(reduction)
            extent = _text(_product(loop.axes))
            with self.lines.block(f"for r_start in range(0, {extent}, RBLOCK):"):
                self._r(loop, "r_start + tl.arange(0, RBLOCK)[None, :]")
                inner = BlockScope(self.lines, self.names.inner(), "inside", dict(scope.results))
                self._statements(loop.body, inner, "r")
        for reduction in reductions:
            self._finish(reduction, scope)

    def _pass_in_registers(self, loop: Loop, scope: BlockScope) -> None:
        if not self.one_row:
            self._r(loop, "tl.arange(0, RBLOCK)[None, :]")
        for statement in loop.body:
            if isinstance(statement, Reduce):
                self._start(statement)
        scope.mask = "inside"
        outer = dict(scope.results)
        self._statements(loop.body, scope, "r")
        scope.results.clear()
        scope.results.update(outer)
        scope.mask = "x_inside"
        if not self.one_row:
            scope.forget_loads()

    def _statements(self, body: Sequence[Statement], scope: BlockScope, along: str) -> None:
        for statement in body:
            if isinstance(statement, Let):
                scope.let(statement.name, scope.value(statement.value))
            elif isinstance(statement, Reduce):
                self._accumulate(statement, scope)
            else:
                self._store(statement, scope, along)

    # -- reductions ---------------------------------------------------------------------------------------------------

    def _start(self, statement: Reduce) -> None:
        name = statement.name
        value_type = DTYPES[statement.value.dtype if statement.kind.startswith("arg") else statement.dtype]
        if statement.kind == "welford":
            if self.persistent:
                return
            for part in ("mean", "m2", "weight"):
                self.lines.line(f"{name}_{part}s = tl.zeros([XBLOCK, RBLOCK], {value_type})")
            return
        start = _start_of(statement)
        self.lines.line(f"{name}_all = tl.full([XBLOCK, RBLOCK], {start}, {value_type})")
        if statement.kind.startswith("arg"):
            self.lines.line(f"{name}_at = tl.full([XBLOCK, RBLOCK], {2**63 - 1}, tl.int64)")

    def _accumulate(self, statement: Reduce, scope: BlockScope) -> None:
        value = scope.named(scope.value(statement.value))
        name, kind, total = statement.name, statement.kind, f"{statement.name}_all"
        if kind == "welford":
            self._accumulate_welford(statement, value)
            return
        if kind.startswith("arg"):
            at = scope.named(scope.value(IndexValue(self._position(statement), torch.int64)), "at")
            wins = self.names.fresh("wins")
            self.lines.line(f"{wins} = inside & beats_{kind[3:]}({value.text}, {at.text}, {total}, {name}_at)")
            self.lines.line(f"{total} = tl.where({wins}, {value.text}, {total})")
            self.lines.line(f"{name}_at = tl.where({wins}, {at.text}, {name}_at)")
            return
        self.lines.line(f"{total} = tl.where(inside, {_combined(kind, total, str(value.text))}, {total})")

    def _accumulate_welford(self, statement: Reduce, value: Block) -> None:
        name = statement.name
        if self.persistent:
            self.lines.line(f"{name}_all = tl.where(inside, {value.text}, 0)")
            return
        mean, m2, weight = (f"{name}_{part}s" for part in ("mean", "m2", "weight"))
        before = self.names.fresh("before")
        self.lines.line(f"{weight} += tl.where(inside, 1.0, 0.0)")
        self.lines.line(f"{before} = {value.text} - {mean}")
        self.lines.line(f"{mean} = tl.where(inside, {mean} + {before} / tl.maximum({weight}, 1.0), {mean})")
        self.lines.line(f"{m2} = tl.where(inside, {m2} + {before} * ({value.text} - {mean}), {m2})")

    def _position(self, statement: Reduce) -> Index:
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
                arguments = f"{name}_all, inside, {_text(_product(loop.axes))}"
                self.lines.line(f"{', '.join(parts)} = deviations_along({arguments})")
            else:
                self.lines.line(f"{', '.join(parts)} = welford_along({name}_means, {name}_m2s, {name}_weights)")
            scope.results.update({part: Block(Text(part), dtype) for part in parts})
            return
        arguments = f"{name}_all, {name}_at" if statement.kind.startswith("arg") else f"{name}_all"
        scope.let(name, Block(Text(f"{_ALONG[statement.kind]}({arguments})"), dtype))

    # -- stores -------------------------------------------------------------------------------------------------------

    def _store(self, statement: Store, scope: BlockScope, along: str) -> None:
        value = cast_block(scope.value(statement.value), self.dtypes[statement.buffer])
        mask = scope.mask
        if statement.mask is not None:
            mask = f"{mask} & {scope.named(scope.value(statement.mask), 'inside').text}"
        bound = scope.bind(statement.bindings)
        place = scope.index(statement.index, bound)
        missing = "" if statement.index.symbols & set(self.kernel.axes) else " + 0 * x_index"
        if along == "r" and not statement.index.symbols & self._loop_axes():
            missing += " + 0 * r_index"
        pointer = f"{statement.buffer} + {place.within(Precedence.ADD)}{missing}"
        function = "tl.store" if statement.mode == "set" else f"tl.atomic_{statement.mode}"
        self.lines.line(f"{function}({pointer}, {value.text}, {mask})")
        scope.forget_loads()

    def _loop_axes(self) -> frozenset[Symbol]:
        return frozenset(axis for loop in self.kernel.loops for axis in loop.axes)


def _combined(kind: str, total: str, value: str) -> str:
    if kind in ("max", "min"):
        return f"{kind}imum({total}, {value})"
    return f"{total} {({'sum': '+', 'prod': '*', 'any': '|', 'all': '&', 'xor_sum': '^'})[kind]} {value}"


def _start_of(statement: Reduce) -> str:
    kind, dtype = statement.kind, statement.value.dtype if statement.kind.startswith("arg") else statement.dtype
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
        return triton_dialect.literal(-math.inf if low else math.inf, dtype)
    return str(torch.iinfo(dtype).min if low else torch.iinfo(dtype).max)


def _names_in(kernel: Kernel) -> set[str]:
    names = {kernel.name, "x_index", "r_index", "inside", "x_inside", "r_start", "tl", "triton", "libdevice"}
    names |= {argument.name for argument in kernel.arguments} | {size.name for size in kernel.sizes}
    names |= {axis.name for axis in kernel.axes}
    for loop in kernel.loops:
        names |= {axis.name for axis in loop.axes}
        names |= {statement.name for statement in loop.body if isinstance(statement, Let | Reduce)}
    return names


def _is_huge(kernel: Kernel) -> bool:
    """Whether positions need 64 bits."""
    numels = [argument.numel.as_int() for argument in kernel.arguments]
    return any(numel is None or numel >= 2**31 for numel in numels)


def _text(index: Index) -> Text:
    return index_text(index, triton_dialect.INDEX_STYLE)
