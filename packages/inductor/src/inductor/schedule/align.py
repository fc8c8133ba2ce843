"""The alignment of iteration spaces: two are cut into the same axes, if their sizes allow it.

``(128, 64)`` over ``(8192,)`` becomes ``(128, 64)``, where the long axis is ``64 * a + b``; over ``(4, 32, 64)`` the
axis of 128 is cut in two.  What is computed there plays no part here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inductor.ir.index import ONE, ZERO, Index, Symbol, loop_variable


@dataclass(frozen=True, slots=True)
class Overlay:
    """Two iteration spaces over common axes: the axes of each side in terms of them, and the pieces that each axis was
    cut into."""

    domain: tuple[Symbol, ...]
    left: dict[Symbol, Index]
    right: dict[Symbol, Index]
    left_pieces: dict[Symbol, tuple[Symbol, ...]]
    right_pieces: dict[Symbol, tuple[Symbol, ...]]


def overlay(left: Sequence[Symbol], right: Sequence[Symbol]) -> Overlay | None:
    """Cuts two row-major iteration spaces into common axes; None if they do not fit."""
    if tuple(left) == tuple(right):
        pieces: dict[Symbol, tuple[Symbol, ...]] = {axis: (axis,) for axis in left}
        return Overlay(tuple(left), {}, {}, pieces, pieces)
    lefts, rights = list(left), list(right)
    domain: list[Symbol] = []
    cuts: tuple[dict[Symbol, list[Symbol]], dict[Symbol, list[Symbol]]] = ({}, {})
    rest_left, rest_right = ONE, ONE
    while True:
        rest_left, axis_left = _next(rest_left, lefts)
        rest_right, axis_right = _next(rest_right, rights)
        if axis_left is None or axis_right is None:
            break
        size = _common(rest_left, rest_right)
        if size is None:
            return None
        piece = _piece(axis_left, axis_right, size, len(domain))
        domain.append(piece)
        cuts[0].setdefault(axis_left, []).append(piece)
        cuts[1].setdefault(axis_right, []).append(piece)
        rest_left, rest_right = _over(rest_left, size), _over(rest_right, size)
        # A used-up axis goes; a part that remains is cut on against the next axis of the other side.
        if rest_left == ONE:
            lefts.pop()
        if rest_right == ONE:
            rights.pop()
    if lefts or rights:
        return None
    return _joined(domain, cuts)


def _next(rest: Index, axes: list[Symbol]) -> tuple[Index, Symbol | None]:
    """The part of the innermost remaining axis that is not cut yet, and that axis."""
    if not axes:
        return rest, None
    size = axes[-1].size
    assert size is not None
    return (size if rest == ONE else rest), axes[-1]


def _common(left: Index, right: Index) -> Index | None:
    """The largest size that both parts can be cut by; None if they do not fit."""
    if left == right:
        return left
    a, b = left.as_int(), right.as_int()
    if a is not None and b is not None:
        if a == 0 or b == 0:
            return None
        return left if b % a == 0 else right if a % b == 0 else None
    if right.divisible_by(left) is not None:
        return left
    return right if left.divisible_by(right) is not None else None


def _over(rest: Index, size: Index) -> Index:
    """The part that remains outside a piece of ``size``."""
    if rest == size:
        return ONE
    quotient = rest.divisible_by(size)
    assert quotient is not None
    return quotient


def _piece(left: Symbol, right: Symbol, size: Index, number: int) -> Symbol:
    """The axis of a piece: one of the two itself, if it is cut no further."""
    for axis in (left, right):
        if axis.size == size:
            return axis if axis is left else loop_variable(f"{axis.name}_{number}", size)
    return loop_variable(f"{left.name}_{number}", size)


def _joined(domain: list[Symbol], cuts: tuple[dict[Symbol, list[Symbol]], dict[Symbol, list[Symbol]]]) -> Overlay:
    """The overlay of the pieces, which were cut from the innermost to the outermost."""
    moves: list[dict[Symbol, Index]] = []
    pieces: list[dict[Symbol, tuple[Symbol, ...]]] = []
    for side in cuts:
        moved: dict[Symbol, Index] = {}
        for axis, parts in side.items():
            total, step = ZERO, ONE
            # Pieces stand innermost first, so that each one's step is the size of those before it.
            for part in parts:
                assert part.size is not None
                total, step = total + Index.of(part) * step, step * part.size
            if total.as_symbol() != axis:
                moved[axis] = total
        moves.append(moved)
        pieces.append({axis: tuple(reversed(parts)) for axis, parts in side.items()})
    return Overlay(tuple(reversed(domain)), moves[0], moves[1], pieces[0], pieces[1])


def permutation(left: Index, right: Index, left_axes: Sequence[Symbol], right_axes: Sequence[Symbol]) -> Overlay | None:
    """An overlay of axes that have the same stride in an index of both sides, whatever their order."""
    places = {}
    for axis in left_axes:
        stride = left.stride_of(axis)
        # Two axes with one stride and size could be matched in two ways.
        if stride is None or stride == ZERO or (stride, axis.size) in places:
            return None
        places[stride, axis.size] = axis
    moved: dict[Symbol, Index] = {}
    pieces: dict[Symbol, tuple[Symbol, ...]] = {}
    for axis in right_axes:
        stride = right.stride_of(axis)
        match = places.pop((stride, axis.size), None) if stride is not None else None
        if match is None:
            return None
        moved[axis], pieces[axis] = Index.of(match), (match,)
    if places:
        return None
    return Overlay(tuple(left_axes), {}, moved, {axis: (axis,) for axis in left_axes}, pieces)
