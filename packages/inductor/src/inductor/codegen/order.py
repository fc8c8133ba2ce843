"""The order in which the nodes of a tree are printed."""

from __future__ import annotations

from collections import Counter

from inductor.ir.expr import Expr, Masked, children


def plan(expr: Expr) -> tuple[Counter[int], list[Expr]]:
    """Every node once, operands first, with its number of uses.  Bodies of masks are left to a scope of their own."""
    uses: Counter[int] = Counter()
    order: list[Expr] = []
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    seen: set[int] = set()
    while stack:
        node, ready = stack.pop()
        # An explicit stack instead of recursion: each node is visited twice, the second time when its operands are
        # done.
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            below = (node.condition,) if isinstance(node, Masked) else children(node)
            uses.update(id(child) for child in below)
            stack.extend((child, False) for child in reversed(below))
    return uses, order
