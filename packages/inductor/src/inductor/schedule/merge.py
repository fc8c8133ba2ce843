"""The merge of two nests into one, where that is legal; whether it pays is decided elsewhere.

The first nest comes before the second.  Their iteration spaces are laid over one another; the loops of the second are
put into loops of the first where what they read is known by then, else behind them.  A value that the first computes
and the second reads at the same element becomes a local value; computed in an earlier pass over the row, it is computed
again where that is cheap and read from memory where not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from inductor import costs
from inductor.deps import counts_positions, expressions, loads_of, stores_of
from inductor.ir.expr import Apply, Expr, Load, Result, loads, rewrite, walk
from inductor.ir.graph import Nest
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import Let, Loop, Reduce, Scan, Statement, Store, map_statement, substituted
from inductor.lowerings.values import cost_again
from inductor.schedule.align import Overlay, overlay, permutation


def merge(first: Nest, second: Nest) -> Nest | None:
    """One nest that does what both do, or None if they do not fit."""
    if first.device != second.device:
        return None
    for laid_first, laid_second in _laid(first, second):
        if (loops := _Merger(laid_first, laid_second).run()) is not None:
            origins = tuple(dict.fromkeys(first.origins + second.origins))
            return replace(laid_first, name=first.name, loops=loops, origins=origins)
    return None


# -- iteration spaces -------------------------------------------------------------------------------------------------


def _laid(first: Nest, second: Nest) -> Iterator[tuple[Nest, Nest]]:
    """The two nests over common axes, in every way that may work."""
    # The caller takes the first that gives loops.
    if (whole := overlay(first.domain, second.domain)) is not None:
        yield from _whole(first, second, whole)
    elif first.domain and second.domain and (transposed := _transposed(first, second)) is not None:
        yield from _whole(first, second, transposed)
    if first.reduced and not second.reduced and (rows := overlay(first.kept, second.domain)) is not None:
        yield _rows(first, second, rows)
    if second.reduced and not first.reduced and (rows := overlay(second.kept, first.domain)) is not None:
        laid_second, laid_first = _rows(second, first, rows)
        yield laid_first, laid_second
    if whole is not None and whole.left and (transposed := _transposed(first, second)) is not None:
        yield from _whole(first, second, transposed)


def _transposed(first: Nest, second: Nest) -> Overlay | None:
    """An overlay by the strides of a buffer that both use; not for nests that count positions, which they do in tensor
    order."""
    if counts_positions(first.loops) or counts_positions(second.loops):
        return None
    places: dict[str, Index] = {store.buffer: store.index for store in stores_of(first.loops)}
    for load in loads_of(first.loops):
        places.setdefault(load.buffer, load.index)
    for load in loads_of(second.loops):
        if load.buffer in places:
            found = permutation(places[load.buffer], load.index, first.domain, second.domain)
            if found is not None:
                return found
    return None


def _whole(first: Nest, second: Nest, over: Overlay) -> Iterator[tuple[Nest, Nest]]:
    """The two nests over all of the common axes, if they reduce over the same ones."""
    left = {piece for axis in first.reduced for piece in over.left_pieces[axis]}
    right = {piece for axis in second.reduced for piece in over.right_pieces[axis]}
    # Both reduce, but not along the same axes: a row of one is no row of the other.
    if left and right and left != right:
        return
    reduced = frozenset(left or right)
    inner = tuple(axis for axis in over.domain if axis in reduced)
    yield (
        replace(first, domain=over.domain, reduced=reduced, loops=_moved(first, over.left, inner)),
        replace(second, domain=over.domain, reduced=reduced, loops=_moved(second, over.right, inner)),
    )


def _moved(nest: Nest, moves: dict[Symbol, Index], inner: tuple[Symbol, ...]) -> tuple[Loop, ...]:
    """The loops over new axes; a pointwise nest laid over a reduction runs along its rows."""
    axes = {True: inner, False: () if nest.reduced else inner}
    return tuple(Loop(axes[bool(loop.axes)], substituted(loop.body, moves)) for loop in nest.loops)


def _rows(rows: Nest, other: Nest, over: Overlay) -> tuple[Nest, Nest]:
    """A nest without reduction laid over the rows of one with: it runs once per row."""
    domain: list[Symbol] = []
    for axis in rows.domain:
        domain.extend((axis,) if axis in rows.reduced else over.left_pieces[axis])
    laid = replace(
        rows,
        domain=tuple(domain),
        loops=tuple(Loop(loop.axes, substituted(loop.body, over.left)) for loop in rows.loops),
    )
    once = tuple(Loop((), substituted(loop.body, over.right)) for loop in other.loops)
    return laid, replace(other, domain=tuple(domain), reduced=rows.reduced, loops=once)


# -- loops ------------------------------------------------------------------------------------------------------------


@dataclass
class _OpenLoop:
    """A loop that statements are still added to."""

    axes: tuple[Symbol, ...]
    body: list[Statement] = field(default_factory=list)


@dataclass
class _Merger:
    """A merge in progress: the loops of ``second`` are put into those of ``first``.

    ``names`` and ``stored`` say in which loop a name is defined and a buffer gets its values, ``again`` the names of
    values recomputed in a later loop.
    """

    first: Nest
    second: Nest
    loops: list[_OpenLoop] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    stored: dict[str, tuple[Store, int]] = field(default_factory=dict)
    again: dict[tuple[str, int], str] = field(default_factory=dict)

    def run(self) -> tuple[Loop, ...] | None:
        if not self._order_of_memory_is_kept():
            return None
        for number, loop in enumerate(self.first.loops):
            self.loops.append(_OpenLoop(loop.axes, list(loop.body)))
            self._note(loop.body, number)
        moved: dict[str, tuple[int, bool]] = {}
        for loop in self.second.loops:
            place = self._place(loop, moved)
            if place is None:
                return None
            self._append(loop, place, moved)
        return tuple(Loop(loop.axes, tuple(loop.body)) for loop in self.loops)

    def _note(self, body: tuple[Statement, ...], number: int) -> None:
        """Remembers in which loop a buffer gets its values and a name its meaning."""
        for statement in body:
            if isinstance(statement, Store):
                self.stored[statement.buffer] = (statement, number)
            else:
                self.names[statement.name] = number

    def _order_of_memory_is_kept(self) -> bool:
        """True if memory written by one nest is touched by the other at the same element only, and never written
        twice."""
        written = list(stores_of(self.first.loops))
        names = {store.buffer for store in written}
        mine = list(stores_of(self.second.loops))
        # With two writers of one place the last one counts, and loops that are put together change who is the last.
        if names & {store.buffer for store in mine} or len(names) != len(written):
            return False
        places = {store.buffer: store for store in written}
        for load in loads_of(self.second.loops):
            store = places.get(load.buffer)
            if store is not None and not _same_element(load, store):
                return False
        later = {store.buffer: store for store in mine}
        for load in loads_of(self.first.loops):
            store = later.get(load.buffer)
            # Read before it is overwritten: with one loop each, an iteration reads its element before any writes it.
            single = len(self.first.loops) == len(self.second.loops) == 1
            if store is not None and not (_same_element(load, store) and single):
                return False
        return True

    def _place(self, loop: Loop, moved: dict[str, tuple[int, bool]]) -> int | None:
        """The first loop that ``loop`` can join, or the number of a new one behind the others."""
        earliest = 0
        for name in _results(loop):
            if name in moved:
                number, is_reduced = moved[name]
                # A reduction has its result when its loop has ended; any other value is there for those behind it.
                earliest = max(earliest, number + 1 if is_reduced else self._after(number, loop.axes))
        for load in loads_of((loop,)):
            if load.buffer in self.stored:
                _, number = self.stored[load.buffer]
                # Stored along the row, and wanted once for the row: that is another element each time.
                if self.loops[number].axes and not loop.axes:
                    return None
                earliest = max(earliest, self._after(number, loop.axes))
        for number in range(earliest, len(self.loops)):
            if self.loops[number].axes == loop.axes:
                return number
        return len(self.loops)

    def _after(self, number: int, axes: tuple[Symbol, ...]) -> int:
        """The first loop that can read a value of loop ``number``: that loop itself if it has the same axes, else the
        next."""
        return number if self.loops[number].axes == axes else number + 1

    def _append(self, loop: Loop, place: int, moved: dict[str, tuple[int, bool]]) -> None:
        """Puts the statements of ``loop`` into loop ``place``, reading what the first nest computes by name."""
        if place == len(self.loops):
            self.loops.append(_OpenLoop(loop.axes))
        for statement in loop.body:
            self.loops[place].body.append(map_statement(statement, lambda expr: self._read(expr, place)))
            if not isinstance(statement, Store):
                moved[statement.name] = (place, isinstance(statement, Reduce))

    def _read(self, expr: Expr, place: int) -> Expr:
        """The tree with loads of what the first nest computes replaced by its values."""

        def rule(node: Expr) -> Expr | None:
            if isinstance(node, Load) and node.buffer in self.stored:
                return self._value(node, place)
            if isinstance(node, Apply) and node.op == "cast" and node.args[0].dtype == node.dtype:
                return node.args[0]
            return None

        return rewrite(expr, rule)

    def _value(self, load: Load, place: int) -> Expr | None:
        """The value that a load of the first nest's buffer would read; None where it has to be read from memory."""
        store, number = self.stored[load.buffer]
        value = store.value
        # In the same loop, or once per row: the value is there under its name.  None leaves the load as it is.
        if number == place or not self.loops[number].axes:
            return value if isinstance(value, Result) else None
        if not isinstance(value, Result):
            return None
        name = self._again(value.name, number, place)
        return None if name is None else Result(name, value.dtype)

    def _again(self, name: str, number: int, place: int) -> str | None:
        """The name of a value of the earlier loop ``number`` recomputed in loop ``place``; None where that is too
        expensive."""
        if (name, place) in self.again:
            return self.again[name, place]
        needed = _closure(name, self.loops[number].body)
        device = self.first.device
        most = costs.CPU.recomputed if device.type == "cpu" else costs.GPU.recomputed
        if needed is None or sum(cost_again(let.value, device) for let in needed) > most:
            return None
        # It would read memory that this very kernel writes, in a loop before: then it may as well be read itself.
        if any(load.buffer in self.stored for let in needed for load in loads(let.value)):
            return None
        for let in needed:
            if (let.name, place) not in self.again:
                value = rewrite(let.value, lambda node: self._renamed(node, place))
                self.again[let.name, place] = self._named(let.name, value, place)
        return self.again[name, place]

    def _named(self, name: str, value: Expr, place: int) -> str:
        """The name of ``value`` in a loop, where it may stand already."""
        for statement in self.loops[place].body:
            if isinstance(statement, Let) and statement.value == value:
                return statement.name
        fresh = f"{name}_{place}"
        while fresh in self.names:
            fresh += "_"
        self.names[fresh] = place
        self.loops[place].body.append(Let(fresh, value))
        return fresh

    def _renamed(self, node: Expr, place: int) -> Expr | None:
        """A read of a value that was recomputed in this loop."""
        if isinstance(node, Result) and (node.name, place) in self.again:
            return Result(self.again[node.name, place], node.dtype, node.part)
        return None


def _results(loop: Loop) -> set[str]:
    """The names that a loop's statements read."""
    found: set[str] = set()
    for statement in loop.body:
        for expr in expressions(statement):
            found.update(node.name for node in walk(expr) if isinstance(node, Result))
    return found


def _closure(name: str, body: list[Statement]) -> list[Let] | None:
    """The Lets of a loop that ``name`` needs, in order; None if it is no Let, or needs what runs along the loop."""
    lets = {statement.name: statement for statement in body if isinstance(statement, Let)}
    scans = {statement.name for statement in body if isinstance(statement, Scan)}
    if name not in lets:
        return None
    # Reductions and values of earlier loops need no repetition: they are known everywhere behind their loop.
    wanted, stack = {name}, [name]
    while stack:
        for node in walk(lets[stack.pop()].value):
            if not isinstance(node, Result):
                continue
            if node.name in scans:
                return None
            if node.name in lets and node.name not in wanted:
                wanted.add(node.name)
                stack.append(node.name)
    return [let for let in lets.values() if let.name in wanted]


def _same_element(load: Load, store: Store) -> bool:
    """True if the load reads the element that the same iteration stored; never for positions that come from data."""
    return not load.bindings and not store.bindings and store.mode == "set" and load.index == store.index
