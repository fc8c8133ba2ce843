"""Alternatives to library products: a product and the kernels around it as one kernel.

A kernel that is all that reads a product's elements, each once, can follow it in registers; a cheap kernel that makes a
factor for the product alone can be part of reading it.  Long sums of few results are split into parts (split-K) that
are added up behind.  Whether any of this is faster than the library is asked elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from inductor import costs
from inductor.deps import access, expressions, loads_of, stores_of
from inductor.ir.expr import Apply, Expr, Load, Result, apply, cast, rewrite, substitute
from inductor.ir.graph import Graph
from inductor.ir.index import ONE, ZERO, Index, Symbol, loop_variable
from inductor.ir.kernel import PRODUCT, Kernel, Loop, Product, Statement, Store, map_statement
from inductor.ir.program import Buffer, Call, Ref
from inductor.lowerings.sizes import contiguous_strides
from inductor.lowerings.values import cost
from inductor.schedule.align import overlay
from inductor.schedule.kernels import arguments_of
from inductor.schedule.memory import Work
from inductor.torch_versions import aten, schema_of

PLACES: Mapping[object, tuple[int, int, int | None]] = {
    aten.mm.default: (0, 1, None),
    aten.bmm.default: (0, 1, None),
    aten.addmm.default: (1, 2, 0),
    aten.baddbmm.default: (1, 2, 0),
}
"""The positions of an operator's factors among its arguments, and of the summand."""

MULTIPLIED = (torch.float16, torch.bfloat16, torch.float32)
"""The dtypes that tensor cores multiply."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A kernel that can replace some of the work of a graph: the call at ``place`` and the other items ``replaced``
    with it, by their numbers."""

    kernel: Kernel
    place: int
    replaced: tuple[int, ...]


def alternatives(work: Sequence[Work], graph: Graph) -> Iterator[Alternative]:
    """The kernels that products of a graph may become, each with as much of the work around it as it can take in."""
    readers: dict[str, list[int]] = {}
    for number, item in enumerate(work):
        for name in _reads(item, graph):
            readers.setdefault(name, []).append(number)
    visible = {ref.name for ref in graph.outputs if isinstance(ref, Ref)}
    visible |= {graph.views[name].base for name in visible if name in graph.views}
    for number, item in enumerate(work):
        if isinstance(item, Call) and item.target in PLACES:
            made = _Alternative(work, graph, readers, visible, number, item).made()
            if made is not None:
                yield made


def _reads(item: Work, graph: Graph) -> set[str]:
    """The buffers that an item reads."""
    if isinstance(item, Kernel):
        return {argument.name for argument in item.arguments if argument.role != "out"}
    return set(access(item, graph).reads)


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A call's argument in memory."""

    buffer: str
    offset: Index
    sizes: tuple[Index, ...]
    strides: tuple[Index, ...]
    dtype: torch.dtype

    def at(self, places: Sequence[Index]) -> Load:
        """The element at ``places``, which count from the last dimension; a dimension of one element stands still."""
        index = self.offset
        for size, stride, place in zip(reversed(self.sizes), reversed(self.strides), reversed(places), strict=False):
            index = index + (ZERO if size == ONE else stride * place)
        return Load(self.buffer, index, self.dtype)


@dataclass(frozen=True, slots=True)
class _Alternative:
    """The search for the alternative to one call."""

    work: Sequence[Work]
    graph: Graph
    readers: Mapping[str, list[int]]
    visible: set[str]
    number: int
    call: Call

    def made(self) -> Alternative | None:
        """The alternative; None if the product or its operands do not suit a kernel."""
        (output,) = self.call.outputs
        first, second, added = PLACES[self.call.target]
        left, right = (self._matrix(self.call.args[place]) for place in (first, second))
        if output is None or left is None or right is None or self.call.kwargs or not _is_plain(output):
            return None
        known = [size.as_int() for size in (*output.sizes, left.sizes[-1])]
        # Blocks pay by using what they read several times, and their shape follows from sizes: none is 1 or varies.
        if any(size is None or size < 2 for size in known) or not _may_be_multiplied(left.dtype, right.dtype):
            return None
        # What comes behind is done to the sum while it is in registers: the product itself is never written.
        after = self._behind(output)
        kernel = self.work[after] if after is not None else None
        laid = _over(kernel, output) if isinstance(kernel, Kernel) else None
        if laid is None:
            after, laid = None, _stored(output)
        inner = loop_variable("k", left.sizes[-1])
        batch, rows, columns = laid.places
        value: Expr = Result(PRODUCT, torch.float32)
        if added is not None:
            bias = self._matrix(self.call.args[added])
            if bias is None:
                return None
            value = apply("add", value, cast(bias.at([batch, rows, columns]), torch.float32))
        factors, before = [], list[int]()
        for matrix, places in ((left, [batch, rows, Index.of(inner)]), (right, [batch, Index.of(inner), columns])):
            element, maker = self._computed(matrix, places)
            factors.append(element)
            before += [] if maker is None else [maker]
        product = Product(factors[0], factors[1], laid.rows, laid.columns, inner, left.dtype)
        loops = (Loop((), tuple(_with_product(statement, output.name, value) for statement in laid.body)),)
        operator = schema_of(self.call.target).name.split("::")[1]
        name, origins = output.name, [operator]
        if isinstance(kernel, Kernel) and after is not None:
            name, origins = kernel.name, [operator, *kernel.origins]
        base = Kernel(f"{operator}_{name}", "cuda", laid.axes, loops, (), (), tuple(origins), (), product)
        # All of it runs at the place of the product, to which what stands around it is moved.
        replaced = (*before, self.number, *(() if after is None else (after,)))
        whole = replace(base, arguments=arguments_of(base.passes, self.graph.buffers))
        return Alternative(whole, self.number, replaced) if self._may_move(whole, replaced) else None

    def _matrix(self, argument: object) -> _Matrix | None:
        """An argument as a matrix in memory; None for one that is no window on a buffer of its own dtype."""
        if not isinstance(argument, Ref):
            return None
        view = self.graph.views.get(argument.name)
        if view is None:
            buffer = self.graph.buffers[argument.name]
            return _Matrix(buffer.name, ZERO, buffer.sizes, buffer.strides, buffer.dtype)
        if view.base not in self.graph.buffers or self.graph.buffers[view.base].dtype != view.buffer.dtype:
            return None
        return _Matrix(view.base, view.offset, view.buffer.sizes, view.buffer.strides, view.buffer.dtype)

    def _behind(self, output: Buffer) -> int | None:
        """The only reader of the product, if it is a kernel that works element by element."""
        readers = self.readers.get(output.name, [])
        if len(readers) != 1 or output.name in self.visible:
            return None
        item = self.work[readers[0]]
        return readers[0] if isinstance(item, Kernel) and _is_elementwise(item) else None

    def _computed(self, matrix: _Matrix, places: Sequence[Index]) -> tuple[Expr, int | None]:
        """An element of a factor: a load, or its computation where a kernel makes the factor for this call alone."""
        plain = matrix.at(places)
        if matrix.buffer in self.visible or self.readers.get(matrix.buffer) != [self.number]:
            return plain, None
        for number in range(self.number - 1, -1, -1):
            item = self.work[number]
            if matrix.buffer not in _writes(item, self.graph):
                continue
            element = _computed_by(item, plain) if isinstance(item, Kernel) else None
            return (plain, None) if element is None else (element, number)
        return plain, None

    def _may_move(self, kernel: Kernel, replaced: Sequence[int]) -> bool:
        """True if nothing between the first and the last of the replaced work writes memory that the kernel touches."""
        reads = {argument.name for argument in kernel.arguments}
        between = [n for n in range(min(replaced), max(replaced)) if n not in replaced]
        return all(reads.isdisjoint(_writes(self.work[number], self.graph)) for number in between)


def _writes(item: Work, graph: Graph) -> set[str]:
    """The buffers that an item writes."""
    if isinstance(item, Kernel):
        return {argument.name for argument in item.arguments if argument.role != "in"}
    return set(access(item, graph).writes)


def _may_be_multiplied(left: torch.dtype, right: torch.dtype) -> bool:
    """True if tensor cores take such factors and the user allows them to."""
    exact = left == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return left == right and left in MULTIPLIED and not exact


def _is_plain(output: Buffer) -> bool:
    """True if a product is contiguous."""
    expected = ONE
    for size, stride in zip(reversed(output.sizes), reversed(output.strides), strict=True):
        if stride != expected:
            return False
        expected = expected * size
    return True


def _is_elementwise(kernel: Kernel) -> bool:
    """True for a kernel that does one pass over its elements, without gathers, masks or combining stores."""
    stores = list(stores_of(kernel.loops))
    plain = all(load.bindings == () for load in loads_of(kernel.loops))
    return (
        plain and kernel.device == "cuda" and kernel.product is None and not kernel.sizes
        and len(kernel.loops) == 1 and not kernel.loops[0].axes
        and all(store.mode == "set" and not store.bindings and store.mask is None for store in stores)
    )  # fmt: skip


# -- the kernel behind ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Laid:
    """Statements over the axes of a product; ``places`` are the batch, the row and the column in terms of them."""

    axes: tuple[Symbol, ...]
    rows: tuple[Symbol, ...]
    columns: tuple[Symbol, ...]
    places: tuple[Index, Index, Index]
    body: tuple[Statement, ...]


def _dimensions(output: Buffer) -> list[Symbol]:
    return [loop_variable(name, size) for name, size in zip("bmn"[-len(output.sizes) :], output.sizes, strict=True)]


def _stored(output: Buffer) -> _Laid:
    """The statements of a product with nothing behind it: its store."""
    axes = tuple(_dimensions(output))
    index = sum((Index.of(axis) * step for axis, step in zip(axes, output.strides, strict=True)), ZERO)
    body = (Store(output.name, index, Load(output.name, index, output.dtype)),)
    batch = Index.of(axes[0]) if len(axes) == 3 else ZERO
    return _Laid(axes, axes[-2:-1], axes[-1:], (batch, Index.of(axes[-2]), Index.of(axes[-1])), body)


def _over(kernel: Kernel, output: Buffer) -> _Laid | None:
    """The kernel's statements over the axes of the product, where each iteration reads its own element."""
    places = {load.index for load in loads_of(kernel.loops) if load.buffer == output.name}
    if len(places) != 1 or any(store.buffer == output.name for store in stores_of(kernel.loops)):
        return None
    # It reads the bits of a value of the buffer's dtype; the sum in registers has another one.
    if any(isinstance(node, Apply) and node.op == "bitcast" for node in _nodes(kernel)):
        return None
    axes = _row_major(kernel.axes, next(iter(places)))
    dimensions = _dimensions(output)
    over = overlay(axes, dimensions) if axes is not None else None
    if over is None:
        return None
    body = tuple(map_statement(s, lambda expr: substitute(expr, over.left), over.left) for s in kernel.loops[0].body)
    pieces = [over.right_pieces[dimension] for dimension in dimensions]
    flat = [_flat(piece) for piece in pieces]
    batch = flat[0] if len(flat) == 3 else ZERO
    return _Laid(over.domain, pieces[-2], pieces[-1], (batch, flat[-2], flat[-1]), body)


def _nodes(kernel: Kernel) -> Iterator[Expr]:
    for statement in kernel.loops[0].body:
        for expr in expressions(statement):
            stack, seen = [expr], set[int]()
            while stack:
                node = stack.pop()
                if id(node) not in seen:
                    seen.add(id(node))
                    yield node
                    stack.extend(node.args if isinstance(node, Apply) else ())


def _row_major(axes: Sequence[Symbol], index: Index) -> tuple[Symbol, ...] | None:
    """The axes in the order in which the index walks memory without gaps; None where it does not."""
    strides = {axis: index.stride_of(axis) for axis in axes}
    known = {axis: stride.as_int() for axis, stride in strides.items() if stride is not None}
    if len(known) != len(axes) or any(stride is None for stride in known.values()):
        return None
    ordered = tuple(sorted(axes, key=lambda axis: -(known[axis] or 0)))
    return ordered if _flat(ordered) == index else None


def _flat(axes: Sequence[Symbol]) -> Index:
    """The row-major position along the axes."""
    total, step = ZERO, ONE
    for axis in reversed(axes):
        assert axis.size is not None
        total, step = total + Index.of(axis) * step, step * axis.size
    return total


def _with_product(statement: Statement, product: str, value: Expr) -> Statement:
    """The statement with the product's element in place of reading it."""

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer == product:
            return value
        if isinstance(node, Apply) and node.op == "cast" and node.args[0].dtype == node.dtype:
            return node.args[0]
        return None

    return map_statement(statement, lambda expr: rewrite(expr, rule))


# -- the kernel before ------------------------------------------------------------------------------------------------


def _computed_by(kernel: Kernel, element: Load) -> Expr | None:
    """The expression that a kernel stores where ``element`` is read, if it does nothing else and that is cheap."""
    stores = list(stores_of(kernel.loops))
    if not _is_elementwise(kernel) or len(stores) != 1 or len(kernel.loops[0].body) != 1:
        return None
    (store,) = stores
    axes = _row_major(kernel.axes, store.index)
    if axes is None or cost(store.value, costs.GPU.cheap_factor) > costs.GPU.cheap_factor:
        return None
    moves, rest = dict[Symbol, Index](), element.index
    for axis in reversed(axes):
        assert axis.size is not None
        moves[axis] = rest % axis.size
        rest = rest // axis.size
    return substitute(store.value, moves)


# -- long sums --------------------------------------------------------------------------------------------------------


def split_k(kernel: Kernel, splits: int, partial: Buffer, buffers: Mapping[str, Buffer]) -> list[Kernel]:
    """The product as ``splits`` products of shorter sums, stored side by side in ``partial``, and the kernel that adds
    them up; empty where the sums cannot be split so."""
    made = kernel.product
    assert made is not None
    assert made.inner.size is not None
    length = made.inner.size.divisible_by(splits)
    if length is None:
        return []
    part, inner = loop_variable("part", splits), loop_variable("k", length)
    whole = {made.inner: Index.of(part) * length + Index.of(inner)}
    place, step = _flat(kernel.axes), ONE
    for axis in kernel.axes:
        assert axis.size is not None
        step = step * axis.size
    first = replace(
        kernel, name=f"{kernel.name}_parts", axes=(part, *kernel.axes),
        loops=(Loop((), (Store(partial.name, Index.of(part) * step + place, Result(PRODUCT, torch.float32)),)),),
        product=replace(made, left=substitute(made.left, whole), right=substitute(made.right, whole), inner=inner),
    )  # fmt: skip
    total: Expr = Load(partial.name, place, torch.float32)
    for number in range(1, splits):
        total = apply("add", total, Load(partial.name, place + step * number, torch.float32))

    # The loops behind the product read the total of the parts in its place.
    def rule(node: Expr) -> Expr | None:
        return total if isinstance(node, Result) and node.name == PRODUCT else None

    (loop,) = kernel.loops
    body = tuple(map_statement(statement, lambda expr: rewrite(expr, rule)) for statement in loop.body)
    second = replace(kernel, name=f"{kernel.name}_sum", loops=(Loop((), body),), product=None)
    known = {**buffers, partial.name: partial}
    return [replace(made, arguments=arguments_of(made.passes, known)) for made in (first, second)]


def partial_sums(kernel: Kernel, splits: int, device: torch.device) -> Buffer:
    """The buffer for the partial sums of a split product."""
    sizes = Index.of(splits), *(axis.size for axis in kernel.axes if axis.size is not None)
    return Buffer(f"{kernel.name}_partial", torch.float32, device, sizes, contiguous_strides(sizes))
