"""A kernel as a C++ function: loops, vectors, tails, accumulators, threads.

Two layouts are printed.  Over ``columns`` the kernel's last axis runs along the lanes and everything inside is a
vector; over ``rows`` the kernel's axes are plain loops and the last axis of each reduction loop runs along the lanes.
What is left over at the end of a vectorised loop is done by the same statements printed for one element.

  columns (x + 1 over rows of n)                rows (sum of rows of n)
  for (i0 = 0; i0 < m; i0++)                    for (i0 = 0; i0 < m; i0++) {
      for (i1 = 0; i1 < n - 7; i1 += 8) ...         for (r = 0; r < n - 7; r += 8) t_lanes.add(...)
      for (i1 = n / 8 * 8; i1 < n; i1++) ...        for (r = n / 8 * 8; r < n; r++) t_all.add(...)
                                                    t_all.take(t_lanes)  ... the statements behind the loop }

What is decided stands in the kernel's layout (``schedule/cpu``); nothing here chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

import torch

from inductor.codegen import cpp_dialect
from inductor.codegen.cpp_accumulators import accumulator_type, is_sum_of_floats
from inductor.codegen.cpp_types import HALVES, scalar_type
from inductor.codegen.cpp_values import Lanes, Operand, Scope, cast_operand
from inductor.codegen.expressions import Precedence, Text, index_text
from inductor.codegen.printer import Lines, Names
from inductor.deps import static_extent
from inductor.ir.expr import IndexValue
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import Argument, Kernel, Let, Loop, Reduce, Scan, Statement, Store
from inductor.ir.layout import LoopLayout, Stream, product
from inductor.ir.ops import POSITIONS

COMBINATIONS = {"add": "{0} + {1}", "mul": "{0} * ({1})", "max": "maximum<{2}>({0}, {1})",
                "min": "minimum<{2}>({0}, {1})"}  # fmt: skip
"""The expressions by which a combining store computes the new element from the old one and the value."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of an axis, as text; ``extent`` where it is the whole axis and that is known."""

    axis: Symbol
    start: str
    stop: str
    extent: int | None

    @staticmethod
    def whole(axis: Symbol) -> Span:
        return Span(axis, "0", _text(_size(axis)).within(Precedence.MULTIPLY), _size(axis).as_int())

    def rest(self, step: int) -> int:
        """The number of iterations that steps leave over at the end; the most there can be, where that is unknown."""
        return step - 1 if self.extent is None else self.extent % step

    def last_start(self, step: int) -> str:
        """The bound below which a whole step can begin."""
        return str(self.extent // step * step) if self.extent is not None else f"{self.stop} - {step - 1}"

    def whole_until(self, step: int) -> str:
        """The position where the last whole step ends."""
        # A number where it is known: compilers then see that a tail is empty or how long it is.
        if self.extent is not None:
            return str(self.extent // step * step)
        if self.start == "0":
            return f"{self.stop} / {step} * {step}"
        return f"{self.start} + ({self.stop} - {self.start}) / {step} * {step}"


@dataclass(frozen=True, slots=True)
class PrintedKernel:
    """A kernel's text in two parts, so that equal bodies can be found.

    The function takes a kernel's buffers and sizes; where its layout is ``checked``, one more pointer for noting
    positions outside their axis; where it is ``threaded``, the number of threads as its last argument."""

    kernel: Kernel
    heading: str
    body: str

    @property
    def text(self) -> str:
        return f"{self.heading}{self.body}"

    @property
    def entry_name(self) -> str:
        return f"{self.kernel.name}_entry"

    @property
    def entry(self) -> str:
        """The text of a second function, for callers that know nothing of its parameters."""
        # Buffers, then the pointer for positions outside, then sizes, then threads: the order of ``_signature``.
        given = [f"({_pointer(argument)})p[{place}]" for place, argument in enumerate(self.kernel.arguments)]
        if self.kernel.cpu.checked:
            given.append(f"(i64*)p[{len(given)}]")
        given += [f"n[{place}]" for place in range(len(self.kernel.sizes) + self.kernel.cpu.threaded)]
        call = f"{self.kernel.name}({', '.join(given)});"
        return f'extern "C" void {self.entry_name}(void* const* p, const i64* n) {{ {call} }}\n'


def print_kernel(kernel: Kernel) -> PrintedKernel:
    """The C++ text of a kernel with a layout."""
    return _KernelPrinter(kernel).print()


class _KernelPrinter:
    """One kernel being printed."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.layout = kernel.cpu
        self.lines = Lines()
        self.names = Names(_names_in(kernel))
        self.dtypes = {argument.name: argument.dtype for argument in kernel.arguments}
        self.root = Scope(self.lines, self.names)

    def print(self) -> PrintedKernel:
        with self.lines.block("{", "}"):
            # Without iterations there may be no memory behind the pointers: not even ``once`` is computed.
            if not self._has_no_iterations():
                for let in self.kernel.once:
                    self.root.let(let.name, self.root.value(let.value))
                self._axes()
        comment = f"// {', '.join(self.kernel.origins)}\n" if self.kernel.origins else ""
        heading = f'{comment}extern "C" void {self.kernel.name}'
        body = f"({self._signature()}) {self.lines}"
        return PrintedKernel(self.kernel, heading, body)

    def _has_no_iterations(self) -> bool:
        return static_extent(self.kernel.axes) == 0

    def _signature(self) -> str:
        parameters = [_parameter(argument) for argument in self.kernel.arguments]
        if self.layout.checked:
            parameters.append("i64* outside")
        parameters += [f"i64 {size.name}" for size in self.kernel.sizes]
        if self.layout.threaded:
            parameters.append("i64 threads")
        return ", ".join(parameters)

    # -- axes ---------------------------------------------------------------------------------------------------------

    def _axes(self) -> None:
        if self.layout.vector == "columns":
            self._columns()
            return
        with ExitStack() as stack:
            self._outer_loops(stack, self.kernel.axes)
            self._every_loop(self._scope())

    def _scope(self, lanes: Lanes | None = None) -> Scope:
        """A block inside the loops over the kernel's axes."""
        scope = self.root.inner()
        scope.lanes = lanes
        return scope

    def _outer_loops(self, stack: ExitStack, axes: Sequence[Symbol]) -> None:
        """Opens plain loops, shared by threads where that pays."""
        if self.layout.shared == "outer":
            self._share(len(axes))
        for axis in axes:
            stack.enter_context(self._for(Span.whole(axis)))

    def _columns(self) -> None:
        """Prints the kernel with its last axis along the lanes."""
        *outer, inner = self.kernel.axes
        width, span = self.layout.width, Span.whole(inner)
        if self.layout.band is not None:
            self._tiles(outer, span, self.layout.band)
            return
        with ExitStack() as stack:
            self._outer_loops(stack, outer)
            split = self.layout.shared == "lanes"
            if split:
                self._share(1)
            with self._vector_for(span, width, "0"):
                for laid in self.layout.loops:
                    self._ask_ahead(laid)
                self._every_loop(self._scope(Lanes(inner, width)))
            if span.rest(width):
                if split:  # what one thread reads another one may have written, were each to do it
                    self.lines.line("#pragma omp single nowait")
                with self._tail_for(span, width):
                    self._every_loop(self._scope())

    def _ask_ahead(self, laid: LoopLayout) -> None:
        """Prints prefetches of the accesses that the layout names."""
        asked: tuple[tuple[str, tuple[Stream, ...]], ...] = (("will_read", laid.read), ("will_write", laid.written))
        for function, found in asked:
            for buffer, index in found:
                place = f"{buffer} + {_text(index).within(Precedence.ADD)}"
                self.lines.line(f"{function}<{self.layout.width}>({place});")

    def _tiles(self, outer: Sequence[Symbol], span: Span, height: int) -> None:
        """Prints a kernel with accesses along the rows and others along the columns: a band of rows at a time, so that
        the cache lines a column touches serve the next rows too."""
        # Bands of rows; in each, vectors of columns, and for each of these the rows of the band.
        # Threads share everything outside of the band's columns.
        *first, row = outer
        width, name = self.layout.width, self.names.fresh(f"{row.name}_band")
        end = self.names.fresh(f"{row.name}_end")
        whole = Span.whole(row)
        with ExitStack() as stack:
            if self.layout.shared == "outer":
                self._share(len(outer))
            for axis in first:
                stack.enter_context(self._for(Span.whole(axis)))
            stack.enter_context(self.lines.block(_header(name, "0", whole.stop, height), "}"))
            self.lines.line(f"const i64 {end} = minimum<i64>({name} + {height}, {whole.stop});")
            band = Span(row, name, end, None)
            with self._vector_for(span, width, "0"):
                begin = self._transposed_squares(band, span.axis)
                with self._for(Span(row, begin, end, None)):
                    self._every_loop(self._scope(Lanes(span.axis, width)))
            if span.rest(width):
                with self._tail_for(span, width), self._for(band):
                    self._every_loop(self._scope())

    def _transposed_squares(self, band: Span, column: Symbol) -> str:
        """Prints the rows of a band in squares, as far as there are whole ones; returns the position where the
        remaining rows begin."""
        row, width, loads = band.axis, self.layout.width, self.layout.transposed
        if not loads:
            return band.start
        group, scope = self.names.fresh(f"{row.name}_group"), self._scope(Lanes(column, width))
        scope.transposed = {}
        with self.lines.block(_header(group, band.start, f"{band.stop} - {width - 1}", width), "}"):
            for load in loads:
                # As many rows as a vector has lanes make a square: read along the memory of the transposed operand and
                # transposed in registers, it gives each row its vector, instead of one lane at a time.
                kind, tile = scope.type_of(load.dtype, True), self.names.fresh("tile")
                place = index_text(load.index, cpp_dialect.INDEX_STYLE, {row: group}).within(Precedence.ADD)
                step = load.index.stride_of(column)
                assert step is not None
                self.lines.line(f"{kind} {tile}[{width}];")
                self.lines.line(f"turn({tile}, {load.buffer} + {place}, {_text(step)});")
                scope.transposed[load] = f"{tile}[{row.name} - {group}]"
            with self._for(Span(row, group, f"{group} + {width}", None)):
                self._every_loop(scope)
        # What is left of the band has too few rows for a square.
        return band.whole_until(width)

    def _every_loop(self, scope: Scope) -> None:
        """Prints all loops of the kernel inside one iteration of its axes."""
        for loop, laid in zip(self.kernel.loops, self.layout.loops, strict=True):
            self._loop(loop, laid, scope)

    # -- threads ------------------------------------------------------------------------------------------------------

    def _share(self, loops: int) -> None:
        """The pragma that shares the next loops: by the team that calls the kernel, or by one of its own."""
        collapse = f" collapse({loops})" if loops > 1 else ""
        # ``nowait``: no iteration needs another's, and whoever runs several kernels in one team waits between waves.
        if self.kernel.axes:
            self.lines.line(f"#pragma omp for nowait{collapse}")
        else:
            self.lines.line(f"#pragma omp parallel for num_threads(threads){collapse}")

    # -- one pass -----------------------------------------------------------------------------------------------------

    def _loop(self, loop: Loop, laid: LoopLayout, scope: Scope) -> None:
        """Prints one pass, with its accumulators before and its results behind it."""
        if not loop.axes:
            self._statements(loop.body, scope, {})
            return
        reductions = [statement for statement in loop.body if isinstance(statement, Reduce)]
        # Declared before the loop, per row; what they came to is named behind it.
        totals = self._accumulators(loop, laid.split, scope.lanes.width if scope.lanes else None, "all")
        spans = [Span.whole(axis) for axis in loop.axes]
        # Over columns each lane has an accumulator of its own already, and nothing is cut.
        if laid.pieces is None or scope.lanes is not None:
            if laid.shared:
                self._share(1)
            self._pass(loop, laid, spans, scope, totals)
        elif laid.whole_below is not None:
            with self._where_it_is_short(loop, laid.whole_below):
                self._pass(loop, laid, spans, scope.inner(), totals)
            # Both ways are printed, and the length chooses when the kernel runs.
            with self.lines.block("else {", "}"):
                self._pieces(loop, laid, laid.pieces, scope.inner(), totals)
        else:
            self._pieces(loop, laid, laid.pieces, scope, totals)
        for reduction in reductions:
            self._results(reduction, laid, scope, totals[reduction.name])

    def _pass(self, loop: Loop, laid: LoopLayout, spans: Sequence[Span], scope: Scope, totals: dict[str, str]) -> None:
        """The loop over the given stretches of its axes."""
        if laid.in_lanes:
            self._row(loop, laid, spans, scope, totals)
            return
        with ExitStack() as stack:
            for span in spans:
                stack.enter_context(self._for(span))
            self._statements(loop.body, scope.inner(), totals)

    def _where_it_is_short(self, loop: Loop, length: int) -> AbstractContextManager[None]:
        """A branch for rows of few elements, where pieces would cost more; their number is known only at run time."""
        extent = product(loop.axes)
        return self.lines.block(f"if ({_text(extent).within(Precedence.COMPARE)} < {length}) {{", "}")

    def _pieces(self, loop: Loop, laid: LoopLayout, count: int, scope: Scope, totals: dict[str, str]) -> None:
        """Prints a long reduction in pieces with accumulators of their own, added up in order: threads share the
        pieces, the result does not depend on the number of threads, and rounding errors stay small."""
        first = Span.whole(loop.axes[0])
        name, unit = first.axis.name, laid.unit
        step, begin, end = (self.names.fresh(f"{name}_{part}") for part in ("step", "begin", "end"))
        # In whole vectors, or blocks of several: only the last piece has a rest to do element by element.
        # A piece's length is rounded up, so that the last pieces may be shorter, or empty.
        rounded = index_text(_size(first.axis) + (count * unit - 1), cpp_dialect.INDEX_STYLE)
        self.lines.line(f"const i64 {step} = {rounded.within(Precedence.MULTIPLY)} / {count * unit} * {unit};")
        pieces = self._accumulators(loop, laid.split, None, "pieces", count)
        if laid.shared:
            self._share(1)
        with self.lines.block(f"for (i64 piece = 0; piece < {count}; piece++) {{", "}"):
            self.lines.line(f"const i64 {begin} = minimum<i64>(piece * {step}, {first.stop});")
            self.lines.line(f"const i64 {end} = minimum<i64>({begin} + {step}, {first.stop});")
            spans = [Span(first.axis, begin, end, None), *(Span.whole(axis) for axis in loop.axes[1:])]
            own = {name: f"{text}[piece]" for name, text in pieces.items()}
            self._pass(loop, laid, spans, scope.inner(), own)
        with self.lines.block(f"for (i64 piece = 0; piece < {count}; piece++) {{", "}"):
            # One after the other, whichever thread made them: floats are added in the same order for any number of
            # threads.
            for name, text in pieces.items():
                self.lines.line(f"{totals[name]}.take({text}[piece]);")

    def _row(self, loop: Loop, laid: LoopLayout, spans: Sequence[Span], scope: Scope, totals: dict[str, str]) -> None:
        """The last axis along the lanes: blocks of several vectors, single vectors, single elements."""
        *outer, inner = spans
        width, count = self.layout.width, laid.side_by_side
        # One accumulator per lane (times ``count`` vectors), joined at the end with that of the tail, ``totals``.
        partial = self._accumulators(loop, laid.split_in_lanes, width, "lanes", count)
        with ExitStack() as stack:
            for span in outer:
                stack.enter_context(self._for(span))
            if count > 1:
                self._blocks(loop, laid, inner, scope, partial)
            # Whole vectors that the blocks left over; none is printed where there cannot be one.
            if count == 1 or inner.rest(width * count) >= width:
                first = {name: f"{text}[0]" if count > 1 else text for name, text in partial.items()}
                start = inner.start if count == 1 else inner.whole_until(width * count)
                with self._vector_for(inner, width, start):
                    self._ask_ahead(laid)
                    self._statements(loop.body, self._lane_scope(scope, inner.axis), first)
            if inner.rest(width):
                with self._tail_for(inner, width):
                    self._statements(loop.body, scope.inner(), totals)
        for name, text in partial.items():
            if count > 1:
                self.lines.line(f"for (i32 k = 0; k < {count}; k++) {totals[name]}.take({text}[k]);")
            else:
                self.lines.line(f"{totals[name]}.take({text});")

    def _blocks(self, loop: Loop, laid: LoopLayout, span: Span, scope: Scope, partial: dict[str, str]) -> None:
        """Prints a loop over several vectors with accumulators of their own: none waits for the addition before it."""
        width, count, name = self.layout.width, laid.side_by_side, span.axis.name
        block = self.names.fresh(f"{name}_block")
        with self.lines.block(_header(block, span.start, span.last_start(width * count), width * count), "}"):
            with self.lines.block(f"for (i32 k = 0; k < {count}; k++) {{", "}"):
                self.lines.line(f"const i64 {name} = {block} + {width} * k;")
                self._ask_ahead(laid)
                each = {result: f"{text}[k]" for result, text in partial.items()}
                self._statements(loop.body, self._lane_scope(scope, span.axis), each)

    # -- loop headers -------------------------------------------------------------------------------------------------

    def _for(self, span: Span) -> AbstractContextManager[None]:
        return self.lines.block(_header(span.axis.name, span.start, span.stop, 1), "}")

    def _vector_for(self, span: Span, width: int, start: str) -> AbstractContextManager[None]:
        return self.lines.block(_header(span.axis.name, start, span.last_start(width), width), "}")

    def _tail_for(self, span: Span, width: int) -> AbstractContextManager[None]:
        return self.lines.block(_header(span.axis.name, span.whole_until(width), span.stop, 1), "}")

    def _lane_scope(self, scope: Scope, axis: Symbol) -> Scope:
        inner = scope.inner()
        inner.lanes = Lanes(axis, self.layout.width)
        return inner

    # -- accumulators -------------------------------------------------------------------------------------------------

    def _accumulators(self, loop: Loop, split: bool, width: int | None, suffix: str, count: int = 1) -> dict[str, str]:
        """Declares one accumulator (or several side by side) for every reduction and scan of the loop; sums of floats
        are ``split`` where that is wanted."""
        declared = {}
        for statement in loop.body:
            if not isinstance(statement, Reduce | Scan):
                continue
            name = self.names.reserve(f"{statement.name}_{suffix}")
            array = f"[{count}]" if count > 1 else ""
            kind = accumulator_type(statement, width, long=split and is_sum_of_floats(statement))
            self.lines.line(f"{kind} {name}{array};")
            declared[statement.name] = name
        return declared

    def _results(self, statement: Reduce, laid: LoopLayout, scope: Scope, total: str) -> None:
        """Names the results of a reduction, for the statements behind its loop."""
        vector = scope.lanes is not None
        name, dtype = statement.name, statement.dtype
        if statement.kind == "welford":
            kind = scope.type_of(dtype, vector)
            # ``Result`` nodes read these by part.
            scope.let(f"{name}_mean", Operand(Text(f"{total}.mean"), dtype, vector))
            scope.let(f"{name}_m2", Operand(Text(f"{total}.m2"), dtype, vector))
            weight = f"splat<{kind}>({total}.count)" if vector else f"{kind}({total}.count)"
            scope.let(f"{name}_weight", Operand(Text(weight), dtype, vector))
            return
        split = laid.split and is_sum_of_floats(statement)
        member = "at" if statement.kind in POSITIONS else "sum()" if split else "value"
        scope.let(name, Operand(Text(f"{total}.{member}"), dtype, vector))

    # -- statements ---------------------------------------------------------------------------------------------------

    def _statements(self, body: Sequence[Statement], scope: Scope, totals: dict[str, str]) -> None:
        for statement in body:
            if isinstance(statement, Let):
                scope.let(statement.name, scope.value(statement.value))
            elif isinstance(statement, Reduce):
                self._reduce(statement, scope, totals[statement.name])
            elif isinstance(statement, Scan):
                self._reduce(statement, scope, totals[statement.name])
                scope.let(statement.name, _running(statement, scope, totals[statement.name]))
            else:
                self._store(statement, scope)

    def _reduce(self, statement: Reduce | Scan, scope: Scope, total: str) -> None:
        value = scope.value(statement.value)
        if scope.lanes is not None:
            # An accumulator of lanes takes a vector even where all its elements are one.
            value = scope.spread(value)
        arguments = [str(value.text)]
        if statement.kind in POSITIONS:
            position = scope.value(IndexValue(self._position(statement), torch.int64))
            arguments.append(str((scope.spread(position) if scope.lanes is not None else position).text))
        self.lines.line(f"{total}.add({', '.join(arguments)});")

    def _position(self, statement: Reduce | Scan) -> Index:
        """The element's number along the axes of its loop, in row-major order."""
        (loop,) = (loop for loop in self.kernel.loops if any(other is statement for other in loop.body))
        position = Index.of(0)
        for axis in loop.axes:
            position = position * _size(axis) + Index.of(axis)
        return position

    def _store(self, statement: Store, scope: Scope) -> None:
        """Prints a store, as one element, a whole vector, or lane by lane."""
        dtype = self.dtypes[statement.buffer]
        value = cast_operand(scope, scope.value(statement.value), dtype)
        mask = scope.value(statement.mask) if statement.mask is not None else None
        bound = scope.bind(statement.bindings)
        stride = scope.stride(statement.index)
        uniform = all(not operand.vector for operand in bound.values()) and not (mask is not None and mask.vector)
        # One element: without lanes, or the same place for all of them, which then hold one value.
        if scope.lanes is None or (uniform and stride is not None and not stride.terms and statement.mode == "set"):
            self._store_element(statement, scope, value, mask, bound)
        # Neighbours lie side by side, so that one instruction stores them all; else lane by lane, in the order of
        # iterations.
        elif stride == 1 and statement.mode == "set" and not any(operand.vector for operand in bound.values()):
            self._store_vector(statement, scope, value, mask, bound)
        else:
            self._store_lanes(statement, scope, value, mask, bound)
        scope.forget_loads()

    def _store_element(
        self, statement: Store, scope: Scope, value: Operand, mask: Operand | None, bound: dict[Symbol, Operand]
    ) -> None:
        place = scope.index(statement.index, {symbol: str(operand.text) for symbol, operand in bound.items()})
        text = str(value.text) if not value.vector else f"{value.text.within(Precedence.ATOM)}[0]"
        line = self._write(statement, f"{statement.buffer}[{place}]", text)
        self.lines.line(line if mask is None else f"if ({mask.text}) {line}")

    def _store_vector(
        self, statement: Store, scope: Scope, value: Operand, mask: Operand | None, bound: dict[Symbol, Operand]
    ) -> None:
        index = scope.index(statement.index, {symbol: str(operand.text) for symbol, operand in bound.items()})
        place = f"{statement.buffer} + {index.within(Precedence.ADD)}"
        text = str(scope.spread(value).text)
        # Truth values are masks in registers and bytes in memory.
        if self.dtypes[statement.buffer] == torch.bool:
            function = "store_mask"
        else:
            function = "store"
        if mask is None:
            self.lines.line(f"{function}({place}, {text});")
        elif mask.vector:
            self.lines.line(f"{function}_where({mask.text}, {place}, {text});")
        else:
            self.lines.line(f"if ({mask.text}) {function}({place}, {text});")

    def _store_lanes(
        self, statement: Store, scope: Scope, value: Operand, mask: Operand | None, bound: dict[Symbol, Operand]
    ) -> None:
        """One lane after the other: scattered, strided or added places."""
        assert scope.lanes is not None
        value = scope.named(value)
        mask = scope.named(mask) if mask is not None else None
        place = f"{statement.buffer}[{scope.lane_index(statement.index, bound)}]"
        element = f"{value.text}[lane]" if value.vector else str(value.text)
        if value.vector and value.dtype == torch.bool:
            element = f"{element} != 0"
        line = self._write(statement, place, element)
        if mask is not None:
            line = f"if ({mask.text}{'[lane]' if mask.vector else ''}) {line}"
        self.lines.line(f"for_each_lane<{scope.lanes.width}>([&](i32 lane) {{ {line} }});")

    def _write(self, statement: Store, place: str, value: str) -> str:
        """The statement that sets an element, or combines the old one with the value."""
        if statement.mode == "set":
            return f"{place} = {value};"
        dtype = self.dtypes[statement.buffer]
        if dtype in HALVES:
            name = scalar_type(dtype)
            sides = f"from_{name}<f32>({place})", f"from_{name}<f32>({value})"
            return f"{place} = to_{name}<{name}>({COMBINATIONS[statement.mode].format(*sides, 'f32')});"
        if dtype == torch.bool:
            return f"{place} {'|' if statement.mode in ('add', 'max') else '&'}= {value};"
        if statement.mode != "add":
            name = scalar_type(dtype)
            return f"{place} = {name}({COMBINATIONS[statement.mode].format(place, value, name)});"
        return f"atomic_add(&{place}, {value});" if self.layout.atomic else f"{place} += {value};"


def _names_in(kernel: Kernel) -> set[str]:
    """Every name that the kernel brings along and that must not be given again."""
    names = {kernel.name, "outside", "threads", "lane", "k", *(argument.name for argument in kernel.arguments)}
    names |= {axis.name for axis in kernel.axes} | {size.name for size in kernel.sizes}
    for loop in kernel.passes:
        names |= {axis.name for axis in loop.axes}
        names |= {statement.name for statement in loop.body if isinstance(statement, Let | Reduce | Scan)}
    return names


def _parameter(argument: Argument) -> str:
    return f"{_pointer(argument)} __restrict {argument.name}"


def _pointer(argument: Argument) -> str:
    const = "const " if argument.role == "in" else ""
    return f"{const}{scalar_type(argument.dtype)}*"


def _running(statement: Scan, scope: Scope, total: str) -> Operand:
    """The value of a scan's accumulator, which is its result for the current element."""
    return Operand(Text(f"{total}.value"), statement.dtype, scope.lanes is not None)


def _size(axis: Symbol) -> Index:
    assert axis.size is not None
    return axis.size


def _header(name: str, start: str, stop: str, step: int) -> str:
    increment = f"{name}++" if step == 1 else f"{name} += {step}"
    return f"for (i64 {name} = {start}; {name} < {stop}; {increment}) {{"


def _text(index: Index) -> Text:
    return index_text(index, cpp_dialect.INDEX_STYLE)
