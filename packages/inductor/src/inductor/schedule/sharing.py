"""Names for what a loop would compute twice.

Lowering repeats a subexpression wherever a formula mentions it (GELU reads its argument twice).  Here equal subtrees of
one loop body become one ``Let``, so that kernels read well and no target has to look for them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from inductor.deps import expressions, stores_of
from inductor.ir.expr import Apply, Expr, Masked, Result, loads
from inductor.ir.kernel import Let, Loop, Statement
from inductor.lowerings.values import cost
from inductor.schedule.merge import map_statement

WORTH_A_NAME = 2
"""What costs less is clearer where it stands."""


def shared(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """The loops with repeated subexpressions named."""
    return tuple(_Body(loop, f"s{number}_").run() for number, loop in enumerate(loops))


class _Body:
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
        """Counts subtrees; what is in a repeated one is not counted again."""
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
        rebuilt = self.rebuilt(expr)
        if self.count[expr] < 2 or cost(expr, WORTH_A_NAME) < WORTH_A_NAME or not self.is_steady(expr):
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
        """False for what reads memory that this loop also writes."""
        return all(load.buffer not in self.written for load in loads(expr))


def _always_computed(expr: Apply | Masked) -> tuple[Expr, ...]:
    """The operands that are computed wherever the node is; the body of a mask is not."""
    return (expr.condition,) if isinstance(expr, Masked) else expr.args
