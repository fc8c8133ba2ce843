"""Common subexpressions and loop invariants: names for values that a loop would compute twice, or in every turn.

Lowering repeats a subexpression wherever a formula mentions it (GELU reads its argument twice).  Here equal subtrees of
one loop body become one ``Let``, so that kernels read well and no target has to look for them again.  Costly values
that do not change along a reduction loop are computed before it, once per row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from inductor import costs
from inductor.deps import expressions, stores_of
from inductor.ir.expr import Apply, Expr, IndexValue, Load, Masked, Result, children, loads
from inductor.ir.index import Symbol
from inductor.ir.kernel import Let, Loop, Scan, Statement, Store, map_statement
from inductor.lowerings.values import cost


def shared(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """The loops with repeated subexpressions named."""
    return tuple(_Body(loop, f"s{number}_").run() for number, loop in enumerate(loops))


class _Body:
    """One loop whose repeated subexpressions are being named."""

    def __init__(self, loop: Loop, prefix: str) -> None:
        self.loop, self.prefix = loop, prefix
        self.written = {store.buffer for store in stores_of((loop,))}
        self.count: Counter[Expr] = Counter()
        self.names: dict[Expr, str] = {}
        self.body: list[Statement] = []

    def run(self) -> Loop:
        for statement in self.loop.body:
            for expr in expressions(statement):
                self.visit(expr)
        if max(self.count.values(), default=0) < 2:
            return self.loop
        for statement in self.loop.body:
            self.body.append(map_statement(statement, self.named))
        return Loop(self.loop.axes, tuple(self.body))

    def visit(self, expr: Expr) -> None:
        """Counts subtrees; those inside a repeated one are not counted again."""
        if not isinstance(expr, Apply | Masked):
            return
        self.count[expr] += 1
        if self.count[expr] == 1:
            for child in _always_computed(expr):
                self.visit(child)

    def named(self, expr: Expr) -> Expr:
        """The tree with repeated subtrees read by name; names them where they come first."""
        if not isinstance(expr, Apply | Masked):
            return expr
        if expr in self.names:
            return Result(self.names[expr], expr.dtype)
        # Operands first: a repeated subtree inside becomes a name before its user does.
        rebuilt = self.rebuilt(expr)
        if (
            self.count[expr] < 2
            or cost(expr, costs.ANY.worth_a_name) < costs.ANY.worth_a_name
            or not self.is_steady(expr)
        ):
            return rebuilt
        name = f"{self.prefix}{len(self.names)}"
        self.names[expr] = name
        self.body.append(Let(name, rebuilt))
        return Result(name, expr.dtype)

    def rebuilt(self, expr: Apply | Masked) -> Expr:
        if isinstance(expr, Masked):
            condition = self.named(expr.condition)
            return expr if condition is expr.condition else Masked(condition, expr.body, expr.other, expr.dtype)
        args = tuple(self.named(arg) for arg in expr.args)
        unchanged = all(new is old for new, old in zip(args, expr.args, strict=True))
        return expr if unchanged else Apply(expr.op, args, expr.dtype, expr.param)

    def is_steady(self, expr: Expr) -> bool:
        """True unless the expression reads memory that this loop also writes."""
        return all(load.buffer not in self.written for load in loads(expr))


def _always_computed(expr: Apply | Masked) -> tuple[Expr, ...]:
    """The operands that are computed wherever the node is; the body of a mask is not."""
    return (expr.condition,) if isinstance(expr, Masked) else expr.args


# -- what does not change along a loop --------------------------------------------------------------------------------


def hoisted(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """The loops with costly invariants of reduction loops computed once before them."""
    written = {store.buffer for store in stores_of(loops)}
    names: dict[Expr, str] = {}
    result: list[Loop] = []
    for loop in loops:
        own = {statement.name for statement in loop.body if isinstance(statement, Let | Scan)}
        mover = _Mover(loop.axes, own, written, names, "h")
        changed = Loop(loop.axes, tuple(map_statement(s, mover.moved) for s in loop.body)) if loop.axes else loop
        if mover.before:
            earlier = result.pop().body if result and not result[-1].axes else ()
            result.append(Loop((), (*earlier, *mover.before)))
        result.append(changed)
    return tuple(result)


def steady(loops: Sequence[Loop], axes: Sequence[Symbol]) -> tuple[tuple[Let, ...], tuple[Loop, ...]]:
    """The values that no iteration over ``axes`` changes, to be computed once, and the loops that read them by name.

    Axes that may be empty keep everything: the elements it would read need not exist.
    """
    if not axes or not all(_has_elements(axis) for loop in loops for axis in (*axes, *loop.axes)):
        return (), tuple(loops)
    written = {store.buffer for store in stores_of(loops)}
    own = {statement.name for loop in loops for statement in loop.body if not isinstance(statement, Store)}
    names: dict[Expr, str] = {}
    once: list[Let] = []
    result: list[Loop] = []
    for loop in loops:
        mover = _Mover((*axes, *loop.axes), own, written, names, "u")
        kept: list[Statement] = []
        for statement in loop.body:
            # A named value moves as a whole, and those that depend on it may then follow.
            if isinstance(statement, Let) and mover.is_fixed(statement.value):
                own.discard(statement.name)
                mover.before.append(statement)
            else:
                kept.append(map_statement(statement, mover.moved))
        once += mover.before
        result.append(Loop(loop.axes, tuple(kept)))
    return tuple(once), tuple(loop for loop in result if loop.body)


def _has_elements(axis: Symbol) -> bool:
    """True if the axis is known to have an element."""
    low = None if axis.size is None else axis.size.bounds[0]
    return low is not None and low >= 1


class _Mover:
    """Moves invariants out of a loop.  ``axes`` are those they may not depend on, ``own`` the values that change along
    them, ``names`` the values before the loop, to which it adds."""

    def __init__(
        self, axes: Sequence[Symbol], own: set[str], written: set[str], names: dict[Expr, str], prefix: str
    ) -> None:
        self.axes, self.own, self.written, self.names, self.prefix = axes, own, written, names, prefix
        self.before: list[Let] = []
        self.done: dict[int, Expr] = {}
        self.fixed: dict[int, bool] = {}

    def moved(self, expr: Expr) -> Expr:
        """The tree with its largest invariant subtrees read by name."""
        if not isinstance(expr, Apply | Masked):
            return expr
        if id(expr) not in self.done:
            self.done[id(expr)] = self._moved(expr)
        return self.done[id(expr)]

    def _moved(self, expr: Apply | Masked) -> Expr:
        """The tree, with its largest invariant subtrees moved before the loop."""
        if expr in self.names:
            return Result(self.names[expr], expr.dtype)
        if self.is_fixed(expr) and cost(expr, costs.ANY.worth_moving) >= costs.ANY.worth_moving:
            self.names[expr] = f"{self.prefix}{len(self.names)}"
            self.before.append(Let(self.names[expr], expr))
            return Result(self.names[expr], expr.dtype)
        # Not into a mask: computed before the loop, its body would read where the mask forbids it.
        if isinstance(expr, Masked):
            return expr
        args = tuple(self.moved(arg) for arg in expr.args)
        unchanged = all(new is old for new, old in zip(args, expr.args, strict=True))
        return expr if unchanged else Apply(expr.op, args, expr.dtype, expr.param)

    def is_fixed(self, expr: Expr) -> bool:
        """True if the value is the same in every turn of the loop."""
        if id(expr) not in self.fixed:
            self.fixed[id(expr)] = self._is_fixed(expr)
        return self.fixed[id(expr)]

    def _is_fixed(self, node: Expr) -> bool:
        """Operators are as fixed as their operands."""
        if not all(self.is_fixed(child) for child in children(node)):
            return False
        if isinstance(node, Load):
            return node.buffer not in self.written and node.index.symbols.isdisjoint(self.axes)
        if isinstance(node, IndexValue):
            return node.index.symbols.isdisjoint(self.axes)
        return not isinstance(node, Result) or node.name not in self.own
