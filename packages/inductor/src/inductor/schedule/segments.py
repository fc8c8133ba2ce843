"""Segments: the innermost loop of a kernel on a CPU, cut where what a condition says of its variable changes.

```
for i1 in 1024:                            for i1 in 512:
    out[i1] = i1 < 512 ? a[i1]        ->       out[i1] = a[i1]
                       : b[i1 - 512]       for i1 in 512:
                                               out[512 + i1] = b[i1]
```

Within a segment conditions on the variable are known, so that concatenation and padding are copies without masks, and
positions that are reflected or clamped are plain strides.  Decided once, on data: a printer sees loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from inductor import costs
from inductor.deps import static_extent
from inductor.ir.expr import (
    CHECKS,
    Apply,
    Const,
    Expr,
    IndexValue,
    Load,
    Masked,
    Result,
    apply,
    cast,
    children,
    has_checks,
    rewrite,
    rewritten,
    substitute,
    walk,
)
from inductor.ir.index import Index, Symbol, loop_variable
from inductor.ir.kernel import Let, Loop, Statement, Store, map_statement

_INTEGERS = frozenset({torch.int32, torch.int64})
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def in_segments(axes: tuple[Symbol, ...], loops: tuple[Loop, ...]) -> tuple[tuple[Symbol, ...], tuple[Loop, ...]]:
    """A kernel's axes and loops with the innermost axis in segments, or as they are where that brings nothing."""
    if len(axes) < 2 or len(loops) != 1 or loops[0].axes:
        return axes, loops
    axis, body = axes[-1], loops[0].body
    extent = static_extent([axis])
    simple = all(isinstance(each, Let) or (isinstance(each, Store) and not each.may_meet) for each in body)
    if extent is None or not simple or not any(_cuts(body, axis, extent)):
        return axes, loops
    segments = _segments(body, axis, extent)
    if segments is None or max(each.extent for each in segments) < costs.CPU.shortest_segment:
        return axes, loops
    return axes[:-1], tuple(Loop((each.axis,), _named_apart(each.body, n)) for n, each in enumerate(segments))


@dataclass(frozen=True, slots=True)
class _Segment:
    """Statements over a stretch of the axis, with a variable of its own that begins at 0."""

    first: int
    extent: int
    axis: Symbol
    body: tuple[Statement, ...]


def _segments(body: tuple[Statement, ...], axis: Symbol, extent: int) -> list[_Segment] | None:
    """The segments in their order; None where there would be too many of them."""
    waiting, done = [_Segment(0, extent, axis, body)], list[_Segment]()
    while waiting:
        segment = waiting.pop()
        # What one cut decides may show another: the sign of a position tells how far it is reflected.
        cut = next(_cuts(segment.body, segment.axis, segment.extent), None)
        if cut is None:
            done.append(segment)
        else:
            waiting += [_part(segment, cut, segment.extent), _part(segment, 0, cut)]
        if len(done) + len(waiting) > costs.CPU.most_segments:
            return None
    return done


def _part(segment: _Segment, first: int, end: int) -> _Segment:
    """A part of a segment, with what its conditions are there."""
    axis = loop_variable(f"{segment.axis.name.split('_')[0]}_{segment.first + first}", end - first)
    at = {segment.axis: Index.of(axis) + first}
    body: list[Statement] = []
    for each in segment.body:
        lost: list[Expr] = []

        def known(expr: Expr, lost: list[Expr] = lost) -> Expr:
            moved = substitute(expr, at)
            found = rewritten(moved, _decided)
            lost += _lost_checks(moved, found)
            return found[id(moved)]

        changed = map_statement(each, known, at)
        asked = {statement.value for statement in body if isinstance(statement, Let)}
        checks = [check for check in dict.fromkeys(lost) if check not in asked]
        body += [Let(f"{_CHECKED}{len(body) + number}", check) for number, check in enumerate(checks)]
        body.append(changed)
    return _Segment(segment.first + first, end - first, axis, tuple(body))


_CHECKED = "checked"
"""The name of what is computed only because it may raise, before a number."""


def _lost_checks(expr: Expr, found: Mapping[int, Expr]) -> list[Expr]:
    """The checks that are made wherever ``expr`` is computed, and are not in what was ``found`` for it: eager computes
    what is not chosen, too.  One within a ``Masked`` is made where the condition holds, and so it is here."""
    if not has_checks(expr):
        return []
    checks: dict[bool, list[tuple[Expr | None, Expr]]] = {True: [], False: []}
    stack: list[tuple[Expr, Expr | None, bool]] = [(expr, None, False)]
    seen: set[tuple[int, Expr | None, bool]] = set()
    while stack:
        node, inside, lost = stack.pop()
        if (id(node), inside, lost) in seen:
            continue
        seen.add((id(node), inside, lost))
        if isinstance(node, Masked):
            condition = found[id(node.condition)]
            stack.append((node.condition, inside, lost))
            if (truth := _truth(condition)) is None:
                both = condition if inside is None else apply("and", inside, condition)
                stack.append((node.body, both, lost))
            elif truth:
                stack.append((node.body, inside, lost))
            continue
        if isinstance(node, Apply) and node.op in CHECKS:
            checks[lost].append((inside, found[id(node)]))
        left_out = _left_out(node, found)
        stack += [(child, inside, lost or child is left_out) for child in children(node)]
    kept = set(checks[False])
    gone = [(inside, check) for inside, check in checks[True] if not kept & {(inside, check), (None, check)}]
    return [
        check if inside is None else Masked(inside, check, Const(0, check.dtype), check.dtype)
        for inside, check in gone
        if has_checks(check)
    ]


def _left_out(node: Expr, found: Mapping[int, Expr]) -> Expr | None:
    """The operand that is not computed any more, as another is known."""
    if not isinstance(node, Apply) or node.op not in ("where", "and", "or"):
        return None
    if node.op == "where":
        truth = _truth(found[id(node.args[0])])
        return None if truth is None else node.args[2 if truth else 1]
    for known, other in (node.args, node.args[::-1]):
        if _truth(found[id(known)]) is (node.op == "or"):
            return other
    return None


def _named_apart(body: Sequence[Statement], number: int) -> tuple[Statement, ...]:
    """The statements with names of their own: each segment computes the values of the others."""
    own = {each.name: f"{each.name}_{number}" for each in body if isinstance(each, Let)}

    def rule(node: Expr) -> Expr | None:
        return replace(node, name=own[node.name]) if isinstance(node, Result) and node.name in own else None

    renamed = (map_statement(each, lambda expr: rewrite(expr, rule)) for each in body)
    return tuple(replace(each, name=own[each.name]) if isinstance(each, Let) else each for each in renamed)


# -- where conditions change -------------------------------------------------------------------------------------------


def _cuts(body: Sequence[Statement], axis: Symbol, extent: int) -> Iterator[int]:
    """The places within the axis at which a condition on it changes."""
    for statement in body:
        values = [statement.value] if isinstance(statement, Let | Store) else []
        if isinstance(statement, Store) and statement.mask is not None:
            values.append(statement.mask)
        for value in values:
            for node in walk(value):
                for change, op in _changes(node):
                    yield from (cut for cut in _zeros(change, op, axis) if 0 < cut < extent)


def _changes(node: Expr) -> Iterator[tuple[Index, str]]:
    """Pairs of an index and a comparison of it with 0 on which the node's value depends."""
    if not isinstance(node, Apply):
        return
    positions = [position for position in map(_position, node.args) if position is not None]
    if len(positions) < len(node.args):
        return
    if node.op in ("abs", "wrapped"):
        yield positions[0], "ge"
    elif node.op in ("maximum", "minimum"):
        yield positions[0] - positions[1], "ge"
    elif node.op in _COMPARISONS:
        yield positions[0] - positions[1], node.op


def _position(expr: Expr) -> Index | None:
    """The index of an integer that is known as one."""
    if isinstance(expr, IndexValue):
        return expr.index if expr.dtype in _INTEGERS else None
    return Index.of(int(expr.value)) if isinstance(expr, Const) and expr.dtype in _INTEGERS else None


def _zeros(change: Index, op: str, axis: Symbol) -> tuple[int, ...]:
    """The values of the axis from which on ``change`` compares with 0 otherwise than before."""
    step = change.stride_of(axis)
    sign = None if step is None else step.as_int()
    if sign not in (1, -1):
        return ()
    rest = (change - Index.of(axis) * sign).as_int()
    if rest is None:
        return ()
    zero = -rest * sign  # where it is 0
    if op in ("eq", "ne"):
        return zero, zero + 1
    # Growing, it is at least 0 from there on, and more than 0 behind it; falling, the other way round.
    return (zero if (op in ("lt", "ge")) is (sign == 1) else zero + 1,)


# -- what is known within a segment ------------------------------------------------------------------------------------


def _decided(node: Expr) -> Expr | None:
    """The node as the ranges of its indices have it; None where they do not tell."""
    if isinstance(node, Masked):
        known = _truth(node.condition)
        return None if known is None else cast(node.body, node.dtype) if known else cast(node.other, node.dtype)
    if isinstance(node, Load):
        return _at_a_place(node)
    if not isinstance(node, Apply):
        return None
    rule = _RULES.get(node.op)
    return None if rule is None else rule(node)


def _truth(expr: Expr) -> bool | None:
    return bool(expr.value) if isinstance(expr, Const) and expr.dtype == torch.bool else None


def _compared(node: Apply) -> Expr | None:
    """A comparison of positions, where it holds or fails for all of them."""
    left, right = map(_position, node.args)
    if left is None or right is None:
        return None
    low, high = (left - right).bounds
    least, most = (-math.inf if low is None else low), (math.inf if high is None else high)
    # What is certain where it holds, and where it fails.
    holds, fails = {
        "lt": (most < 0, least >= 0),
        "le": (most <= 0, least > 0),
        "gt": (least > 0, most <= 0),
        "ge": (least >= 0, most < 0),
        "eq": (least == most == 0, most < 0 or least > 0),
        "ne": (most < 0 or least > 0, least == most == 0),
    }[node.op]
    return Const(holds, torch.bool) if holds or fails else None


def _joined(node: Apply) -> Expr | None:
    """``and`` and ``or`` of which one side is known."""
    deciding = node.op == "or"
    for known, other in (node.args, node.args[::-1]):
        truth = _truth(known)
        if truth is not None:
            return known if truth is deciding else other
    return None


def _negated(node: Apply) -> Expr | None:
    truth = _truth(node.args[0])
    return None if truth is None else Const(not truth, torch.bool)


def _chosen(node: Apply) -> Expr | None:
    truth = _truth(node.args[0])
    return None if truth is None else node.args[1 if truth else 2]


def _computed(node: Apply) -> Expr | None:
    """A sum, difference or magnitude of positions as a position, where it cannot be too large for its dtype."""
    positions = [position for position in map(_position, node.args) if position is not None]
    if len(positions) < len(node.args) or not any(isinstance(arg, IndexValue) for arg in node.args):
        return None
    first = positions[0]
    low, high = (first - positions[1] if len(positions) == 2 else first).bounds
    if low is None or high is None:
        return None
    results: dict[str, Callable[[], Index | None]] = {
        "add": lambda: first + positions[1],
        "sub": lambda: first - positions[1],
        "neg": lambda: -first,
        "abs": lambda: first if low >= 0 else -first if high <= 0 else None,
        "maximum": lambda: first if low >= 0 else positions[1] if high <= 0 else None,
        "minimum": lambda: first if high <= 0 else positions[1] if low >= 0 else None,
        "wrapped": lambda: _wrapped(first, positions[1]),
    }
    found = results[node.op]()
    if found is None or not all(bound is not None and abs(bound) < 1 << 31 for bound in found.bounds):
        return None
    return IndexValue(found, node.dtype)


def _wrapped(position: Index, size: Index) -> Index | None:
    """A position on an axis, where it is known to be on it."""
    if position.is_nonnegative():
        return position if position.is_below(size) else None
    counted = position + size
    return counted if counted.is_nonnegative() and position.is_below(0) else None


_RULES: dict[str, Callable[[Apply], Expr | None]] = {
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(("add", "sub", "neg", "abs", "maximum", "minimum", "wrapped"), _computed),
    "and": _joined,
    "or": _joined,
    "not": _negated,
    "where": _chosen,
}


def _at_a_place(load: Load) -> Expr | None:
    """A gathered element of which some places are known by now."""
    known = {symbol: place for symbol, value in load.bindings if (place := _position(value)) is not None}
    if not known:
        return None
    left = tuple((symbol, value) for symbol, value in load.bindings if symbol not in known)
    return Load(load.buffer, load.index.subs(known), load.dtype, left)


__all__ = ["in_segments"]
