"""Kernels from merged nests: unread values are dropped, the loop order is chosen by strides, axes are joined.

Decides how the loops run; it no longer changes what is computed or which nests belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch

from inductor import costs
from inductor.deps import counts_positions, expressions, indices_of, loads_of, stores_of
from inductor.errors import UnsupportedGraph
from inductor.ir.expr import Apply, Const, Expr, IndexValue, Load, Result, has_checks, rewrite, substitute, walk
from inductor.ir.graph import Nest
from inductor.ir.index import ONE, ZERO, Index, Symbol, loop_variable
from inductor.ir.kernel import PRODUCT, Argument, Kernel, Let, Loop, Statement, Store, map_statement, numbers_last
from inductor.ir.program import Buffer
from inductor.lowerings.values import cost, representable
from inductor.schedule.segments import in_segments
from inductor.schedule.sharing import hoisted, shared, steady


def make_kernel(nest: Nest, name: str, buffers: Mapping[str, Buffer], live: Collection[str]) -> Kernel | None:
    """The kernel of a nest; ``live`` are the buffers somebody reads later.  None if nothing is left to do."""
    checks = has_checks if nest.device.type == "cpu" else None
    nest = split(replace(nest, loops=inlined(pruned(nest.loops, live, checks))))
    if not nest.loops:
        return None
    kept = nest.kept if _counts_order(nest.loops) else _ordered(nest.kept, nest.loops)
    inner = nest.inner if counts_positions(nest.loops) else _ordered(nest.inner, nest.loops)
    loops = tuple(Loop(inner if loop.axes else (), loop.body) for loop in nest.loops)
    outer_runs, inner_runs = _runs(kept, loops, "i"), _runs(inner, loops, "r")
    loops = _renamed(loops, {**outer_runs, **inner_runs})
    kept, inner = tuple(outer_runs), tuple(inner_runs)
    loops = tuple(Loop(inner if loop.axes else (), loop.body) for loop in loops)
    device: Literal["cpu", "cuda"] = "cuda" if nest.device.type == "cuda" else "cpu"
    loops = exact(loops)
    once, loops = steady(loops, kept) if device == "cpu" else ((), loops)  # a GPU has no place before its threads
    if device == "cpu":
        kept, loops = in_segments(kept, loops)
        inner = tuple(dict.fromkeys(axis for loop in loops for axis in loop.axes))
        loops = pruned(loops, live, checks)
    loops = shared(hoisted(loops))
    passes = (Loop((), once), *loops)
    return Kernel(
        name, device, kept, loops, arguments_of(passes, buffers), _sizes(kept, inner, passes), nest.origins, once
    )  # fmt: skip


# -- what is not needed -----------------------------------------------------------------------------------------------


_KEEPS_NUMBERS = frozenset({"neg", "abs", "maximum", "minimum", "fmax", "fmin", "where"})
"""Operators whose results are among their operands, but for the sign."""


def exact(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """The loops without roundings to half precision of values that have it already: those read from memory, not
    fused."""

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Apply) or node.op != "rounded" or node.param is None:
            return None
        return node.args[0] if _has_precision(node.args[0], node.param) else None

    def without(expr: Expr) -> Expr:
        return rewrite(expr, rule)

    return tuple(Loop(loop.axes, tuple(map_statement(s, without) for s in loop.body)) for loop in loops)


def _has_precision(expr: Expr, dtype: torch.dtype) -> bool:
    """True if rounding the value to ``dtype`` would not change it."""
    if isinstance(expr, Const):
        return representable(expr.value, dtype) == expr.value
    if not isinstance(expr, Apply):
        return False
    if expr.op == "cast":
        return isinstance(expr.args[0], Load) and expr.args[0].dtype == dtype
    if expr.op in _KEEPS_NUMBERS:
        return all(_has_precision(arg, dtype) for arg in expr.args[expr.op == "where" :])
    return expr.op == "rounded" and expr.param == dtype


def pruned(
    loops: Sequence[Loop], live: Collection[str], checks: Callable[[Expr], bool] | None = None
) -> tuple[Loop, ...]:
    """The loops without stores nobody reads and values nobody uses, but for those that check something."""

    def checking(statement: Statement) -> bool:
        return checks is not None and any(map(checks, expressions(statement)))

    wanted = set(live) | {load.buffer for load in loads_of(loops)}
    current = [list(loop.body) for loop in loops]
    current = [[s for s in body if not isinstance(s, Store) or s.buffer in wanted or checking(s)] for body in current]
    used = {node.name for body in current for s in body if isinstance(s, Store) for node in _results_in(s)}
    for body in reversed(current):
        kept: list[Statement] = []
        for statement in reversed(body):
            if isinstance(statement, Store) or statement.name in used or checking(statement):
                kept.append(statement)
                used.update(node.name for node in _results_in(statement))
        body[:] = reversed(kept)
    # What is gone may have been the last to read a buffer, whose store then goes as well.
    result = tuple(Loop(loop.axes, tuple(body)) for loop, body in zip(loops, current, strict=True) if body)
    still = set(live) | {load.buffer for load in loads_of(result)}
    return pruned(result, live, checks) if still != wanted else result


def _results_in(statement: Statement) -> list[Result]:
    return [node for expr in expressions(statement) for node in walk(expr) if isinstance(node, Result)]


def inlined(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """The loops with values named only where they are used more than once, or in another loop."""
    uses = Counter(node.name for loop in loops for s in loop.body for node in _results_in(s))
    values: dict[str, Expr] = {}
    result = tuple(Loop(loop.axes, _inlined_body(loop.body, uses, values)) for loop in loops)
    return tuple(loop for loop in result if loop.body)


def _inlined_body(body: tuple[Statement, ...], uses: Counter[str], values: dict[str, Expr]) -> tuple[Statement, ...]:
    """One loop's statements; ``values`` holds what later statements find in place of a name."""
    here = Counter(node.name for s in body for node in _results_in(s))
    stores = {s.buffer for s in body if isinstance(s, Store)}
    kept: list[Statement] = []

    def rule(node: Expr) -> Expr | None:
        return values.get(node.name) if isinstance(node, Result) and not node.part else None

    for statement in body:
        changed = map_statement(statement, lambda expr: rewrite(expr, rule))
        if isinstance(changed, Let):
            simple = isinstance(changed.value, Result | Const)
            # Used once, it may as well stand where it is used.  What another loop uses keeps its name, and so does a
            # long value: a compiler takes long over expressions that go on and on.
            once = uses[changed.name] == here[changed.name] == 1 and _keeps_order(changed.value, stores)
            once = once and cost(changed.value, costs.ANY.longest_inlined) <= costs.ANY.longest_inlined
            if once or simple:
                values[changed.name] = changed.value
                continue
        kept.append(changed)
    return tuple(kept)


def _keeps_order(value: Expr, stores: Collection[str]) -> bool:
    """True if the value reads nothing that the loop writes, so that it may be computed at a later statement."""
    return all(not isinstance(node, Load) or node.buffer not in stores for node in walk(value))


# -- axes that indices take apart -------------------------------------------------------------------------------------


def split(nest: Nest) -> Nest:
    """The nest with an axis ``a`` cut in two where indices use ``a // m`` and ``a % m``: they become plain strides."""
    cuts: dict[Symbol, set[int]] = {}
    # Every divisor of an axis has to be a cut, or some index would keep its division.
    for index in set(indices_of(nest.loops)):
        for axis, divisor in _divisions(index):
            cuts.setdefault(axis, set()).add(divisor)
    moves: dict[Symbol, Index] = {}
    pieces: dict[Symbol, list[Symbol]] = {}
    for axis, divisors in cuts.items():
        if axis in nest.domain and (parts := _cut(axis, sorted(divisors))):
            pieces[axis] = parts
            moves[axis] = _recomposed(parts)
    if not moves:
        return nest
    loops = tuple(
        Loop(
            tuple(piece for axis in loop.axes for piece in pieces.get(axis, [axis])),
            tuple(map_statement(s, lambda expr: substitute(expr, moves), moves) for s in loop.body),
        )
        for loop in nest.loops
    )
    domain = tuple(piece for axis in nest.domain for piece in pieces.get(axis, [axis]))
    reduced = frozenset(piece for axis in nest.reduced for piece in pieces.get(axis, [axis]))
    return replace(nest, domain=domain, reduced=reduced, loops=loops)


def _divisions(index: Index) -> Iterator[tuple[Symbol, int]]:
    """The axes an index divides, with the number."""
    for monomial, _ in index.terms:
        for atom in monomial:
            if isinstance(atom, Symbol):
                continue
            axis, divisor = atom.numerator.as_symbol(), atom.divisor.as_int()
            if axis is not None and divisor is not None and divisor > 0:
                yield axis, divisor
            else:
                yield from _divisions(atom.numerator)


def _cut(axis: Symbol, divisors: list[int]) -> list[Symbol]:
    """The axis as axes of its own, outermost first; nothing if the divisors do not fit into one another."""
    size = axis.size.as_int() if axis.size is not None else None
    if size is None:
        return []
    parts: list[Symbol] = []
    inner = 1
    for outer in [*divisors, size]:
        # By 4 and by 6, say: neither divides the other, and no axes give both.
        if outer % inner:
            return []
        if outer != inner:
            parts.append(loop_variable(f"{axis.name}_{len(parts)}", outer // inner))
        inner = outer
    return parts[::-1]


def _recomposed(parts: list[Symbol]) -> Index:
    """The axis in terms of its parts."""
    total, step = ZERO, ONE
    for part in reversed(parts):
        assert part.size is not None
        total, step = total + Index.of(part) * step, step * part.size
    return total


# -- order and number of axes -----------------------------------------------------------------------------------------


def _counts_order(loops: Sequence[Loop]) -> bool:
    """True if a later iteration may overwrite the element of an earlier one, so that the order of iterations
    matters."""
    return any(store.may_meet and store.mode == "set" for store in stores_of(loops))


def _ordered(axes: tuple[Symbol, ...], loops: Sequence[Loop]) -> tuple[Symbol, ...]:
    """The axis with the smallest strides innermost; stores count twice."""
    if len(axes) < 2:
        return axes
    # Writing with gaps costs more than reading with gaps: a line of the cache is read before a part of it is written.
    places = [load.index for load in loads_of(loops)] + 2 * [store.index for store in stores_of(loops)]
    return tuple(sorted(axes, key=lambda axis: -sum(_step(index, axis) for index in places)))


def _step(index: Index, axis: Symbol) -> int:
    """The distance in elements that the index moves along the axis."""
    stride = index.stride_of(axis)
    if stride is None:
        return 1
    known = stride.as_int()
    return costs.ANY.likely_size if known is None else abs(known)


def _runs(axes: tuple[Symbol, ...], loops: tuple[Loop, ...], prefix: str) -> dict[Symbol, list[Symbol]]:
    """Neighbouring axes that every index walks as one, by the axis they become, which is named after its place."""
    indices = set(indices_of(loops))
    runs: list[list[Symbol]] = []
    for axis in axes:
        # One loop instead of two: fewer counters, and vectors that cross the border.
        if runs and all(_walks_as_one(index, runs[-1][-1], axis) for index in indices):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    result: dict[Symbol, list[Symbol]] = {}
    for number, run in enumerate(runs):
        size = ONE
        for axis in run:
            assert axis.size is not None
            size = size * axis.size
        result[loop_variable(f"{prefix}{number}", size)] = run
    return result


def _walks_as_one(index: Index, outer: Symbol, inner: Symbol) -> bool:
    """True if the outer axis goes on where the inner one ends."""
    step_out, step_in = index.stride_of(outer), index.stride_of(inner)
    assert inner.size is not None
    return step_out is not None and step_in is not None and step_out == step_in * inner.size


def _renamed(loops: tuple[Loop, ...], runs: dict[Symbol, list[Symbol]]) -> tuple[Loop, ...]:
    """Indices follow the innermost axis of each run, whose stride is the run's."""
    flat: dict[Symbol, Index] = {}
    for symbol, run in runs.items():
        # The run's own variable already counts all of its elements, in steps of the innermost axis.
        for axis in run[:-1]:
            flat[axis] = ZERO
        flat[run[-1]] = Index.of(symbol)
    return tuple(
        Loop(loop.axes, tuple(map_statement(s, lambda expr: substitute(expr, flat), flat) for s in loop.body))
        for loop in loops
    )


# -- names ------------------------------------------------------------------------------------------------------------


def with_own_names(kernel: Kernel) -> Kernel:
    """The kernel with arguments and values named by their place in it, so that equal kernels are equal texts."""
    if kernel.members:
        members = tuple(map(with_own_names, kernel.members))
        given = [replace(a, name=f"{a.name}_{number}") for number, own in enumerate(members) for a in own.arguments]
        return replace(kernel, members=members, arguments=numbers_last(given))
    count: Counter[str] = Counter()
    arguments: dict[str, str] = {}
    for argument in kernel.arguments:
        prefix = {"in": "in", "out": "out", "inout": "io"}[argument.role]
        arguments[argument.name] = f"{prefix}{count[prefix]}"
        count[prefix] += 1
    # Numbered in the order of the text, which is the same for kernels that do the same.
    own_loops = (Loop((), kernel.once), *kernel.loops)
    named = [s.name for loop in own_loops for s in loop.body if not isinstance(s, Store)]
    values = {name: f"v{number}" for number, name in enumerate(named)} | {PRODUCT: PRODUCT}

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return Load(arguments[node.buffer], node.index, node.dtype, node.bindings)
        return Result(values[node.name], node.dtype, node.part) if isinstance(node, Result) else None

    def renamed(statement: Statement) -> Statement:
        changed = map_statement(statement, lambda expr: rewrite(expr, rule))
        if isinstance(changed, Store):
            return replace(changed, buffer=arguments[changed.buffer])
        return replace(changed, name=values[changed.name])

    loops = tuple(Loop(loop.axes, tuple(renamed(s) for s in loop.body)) for loop in kernel.loops)
    once = tuple(Let(values[let.name], rewrite(let.value, rule)) for let in kernel.once)
    own = tuple(replace(argument, name=arguments[argument.name]) for argument in kernel.arguments)
    product = kernel.product
    if product is not None:
        product = replace(product, left=rewrite(product.left, rule), right=rewrite(product.right, rule))
    return replace(kernel, loops=loops, arguments=own, once=once, product=product)


# -- what the kernel is given -----------------------------------------------------------------------------------------


def arguments_of(loops: Sequence[Loop], buffers: Mapping[str, Buffer]) -> tuple[Argument, ...]:
    """The buffers that loops touch, by what they do with them."""
    read = dict.fromkeys(load.buffer for load in loads_of(loops))
    stores = list(stores_of(loops))
    written = dict.fromkeys(store.buffer for store in stores)
    added = {store.buffer for store in stores if store.may_meet}
    arguments = [
        Argument(name, buffers[name].dtype, storage(buffers[name]), "in") for name in read if name not in written
    ]
    for name in written:
        # To add to memory is to read it, though no load says so.
        role = "inout" if name in read or name in added else "out"
        arguments.append(Argument(name, buffers[name].dtype, storage(buffers[name]), role))  # type: ignore[arg-type]
    if all(buffers[name].device.type == "cpu" for name in written):
        return tuple(arguments)
    of_the_host = [argument for argument in arguments if buffers[argument.name].device.type == "cpu"]
    for argument in of_the_host:
        if argument.numel != 1:
            raise UnsupportedGraph(f"a kernel on a GPU reads {argument.name}, which lies in the host's memory")
    return numbers_last(replace(argument, number=argument in of_the_host) for argument in arguments)


def storage(buffer: Buffer) -> Index:
    """The number of elements from a buffer's first to its last, with the gaps between."""
    if any(size == 0 for size in buffer.sizes):
        return ZERO
    return sum(((size - 1) * step for size, step in zip(buffer.sizes, buffer.strides, strict=True)), ONE)


def _sizes(kept: Sequence[Symbol], inner: Sequence[Symbol], loops: Sequence[Loop]) -> tuple[Symbol, ...]:
    """The run-time integers that extents and indices mention."""
    axes = {*kept, *inner}
    found = {symbol for axis in axes if axis.size is not None for symbol in axis.size.symbols}
    for loop in loops:
        for statement in loop.body:
            for expr in expressions(statement):
                for node in walk(expr):
                    if isinstance(node, Load | IndexValue):
                        found |= node.index.symbols
            if isinstance(statement, Store):
                found |= statement.index.symbols
    return tuple(sorted((symbol for symbol in found if symbol.size is None and symbol not in axes), key=str))
