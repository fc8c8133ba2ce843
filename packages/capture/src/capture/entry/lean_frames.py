"""Frames that break and compute next to nothing in between: captured they cost more than CPython takes for them.

Each piece of such a frame is worth its guards, its graph and the way to the next one only where it computes something.
What that is is known when it is made; how often it ran is told by the engine, which asks for a review of lean
pieces.  Then CPython runs the loop that they are in, and what is behind the loop is captured again; or the whole
function, where all of its pieces are lean.  What such a frame calls is captured by itself.

What counts is operators, not the time: the same program is captured in the same way on every machine.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, Protocol

from capture import _engine
from capture._engine import GuardedCode, Guards
from capture.bytecode.loops import LoopInCPython
from capture.bytecode.resume import NOWHERE, Continuations, NotResumable
from capture.entry.cache import Cache, CodeState, Piece, Verdict, Version
from capture.entry.translation import Translation
from capture.errors import Location
from capture.log import FallbackRecord, Log
from capture.options import Options
from capture.reasons import Kind, Reason

REVIEWED_AFTER = 64
"""The number of times that a lean piece runs before it is looked at what it is a part of."""
_FEW, _MOST = 2, 3  # operators of a piece: on average less than, and at most
_NO_GUARDS = (("root",), (), ())


class Owner(Protocol):
    """The configuration, of which this holds no reference."""

    cache: Cache
    continuations: Continuations
    options: Options
    log: Log


class Leanness:
    """The frames of one configuration that are left to CPython because their pieces compute too little."""

    def __init__(self, owner: Owner) -> None:
        self._owner: Callable[[], Any] = weakref.ref(owner)

    def piece(self, code: CodeType, made: Translation, entry: GuardedCode) -> Piece:
        """The piece of a translation; a lean one will be reviewed."""
        original = self._owner().continuations.original(code)
        places = frozenset(map(original.place, made.visited)) - {NOWHERE}
        return self.reviewed_later(Piece(made.operators, places, made.stopped is not None), entry)

    def reviewed_later(self, piece: Piece, entry: GuardedCode) -> Piece:
        """The piece; a lean one is looked at when it has run often."""
        options = self._owner().options
        if piece.breaks and piece.operators < _FEW and options.leave_idle and not options.nopython:
            entry.review = REVIEWED_AFTER
        return piece

    def review(self, code: CodeType, version: Version, location: Location) -> Verdict:
        """The verdict on calls of a piece from now on."""
        root = self._owner().continuations.original(code)
        pieces = self._pieces(root.code)
        loop = root.flow.innermost_loop(version.piece.visited)
        if loop is not None:
            if _are_lean((at, each) for at, each in pieces if root.flow.innermost_loop(each.piece.visited) == loop):
                self._state(root.code).loops_let_go.append(loop)
                if (left := self._let_go_of(root.code, loop, location, code)) is not None:
                    return left
        elif max(each.piece.operators for _, each in pieces) <= _MOST and _are_lean(pieces):
            reason = Reason(Kind.FEW_OPERATORS, f"it breaks, and {_OF_ITS_PIECES}")
            self._owner().log.add(FallbackRecord(location, reason))
            return _engine.SKIP_ALWAYS
        # Worth its while, or CPython could not run the loop: looked at again when it has run as often once more.
        version.entry.review = 2 * version.entry.hits
        return version.entry

    def left(self, code: CodeType) -> GuardedCode | None:
        """The code for a continuation in a loop that CPython runs; None for others."""
        continuations = self._owner().continuations
        point = continuations.point_of(code)
        if point is None:
            return None
        root = continuations.original(code).code
        loop = next((each for each in self._state(root).loops_let_go if point.index in each), None)
        return None if loop is None else self._in_cpython(code, loop)

    def _let_go_of(
        self, root: CodeType, loop: frozenset[int], location: Location, asked: CodeType
    ) -> GuardedCode | None:
        """Has CPython run a loop: all continuations in it are replaced; None where one of them cannot be."""
        owner = self._owner()
        inside = [code for code, _ in self._codes(root) if _is_at(owner.continuations.point_of(code), loop)]
        found = {}
        # All or none: a round that began in CPython must not meet a captured piece of the same loop.
        for code in inside:
            made = self._in_cpython(code, loop)
            if made is None:
                self._state(root).loops_let_go.remove(loop)
                return None
            found[code] = made
        for code, made in found.items():
            owner.cache.state(code).versions.clear()
            _engine.drop_entries(code, owner)
            # That one is the verdict, which the engine enters itself.
            if code is not asked:
                _engine.add_entry(code, made)
        where = Location(location.filename, _line(owner.continuations, root, loop), location.function)
        owner.log.add(
            FallbackRecord(where, Reason(Kind.FEW_OPERATORS, f"a loop breaks in each round, and {_OF_ITS_PIECES}"))
        )
        return found.get(asked)

    def _in_cpython(self, code: CodeType, loop: frozenset[int]) -> GuardedCode | None:
        """The code that runs the rest of a loop in CPython; None where there is no such code."""
        owner = self._owner()
        continuations = owner.continuations
        try:
            left = continuations.in_cpython(
                code, lambda root, flow, point: LoopInCPython(root, flow, point, loop, continuations)
            )
        except NotResumable:
            return None
        return GuardedCode(left, Guards(_NO_GUARDS), owner)

    def _state(self, code: CodeType) -> CodeState:
        state: CodeState = self._owner().cache.state(code)
        return state

    def _codes(self, root: CodeType) -> list[tuple[CodeType, CodeState]]:
        owner = self._owner()
        return [(code, owner.cache.state(code)) for code in owner.cache.codes() if _is_of(owner, code, root)]

    def _pieces(self, root: CodeType) -> list[tuple[int, Version]]:
        """The versions of all code made of a function, with a number for each code."""
        codes = enumerate(state for _, state in self._codes(root))
        return [(number, version) for number, state in codes for version in state.versions]


_OF_ITS_PIECES = f"less than {_FEW} operators are computed from one break to the next: CPython runs it"


def _is_of(owner: Owner, code: CodeType, root: CodeType) -> bool:
    return owner.continuations.original(code).code is root


def _is_at(point: Any, loop: frozenset[int]) -> bool:
    return point is not None and point.index in loop


def _line(continuations: Continuations, root: CodeType, loop: frozenset[int]) -> int:
    instructions = continuations.original(root).flow.instructions
    return min((line for i in loop if (line := instructions[i].line) is not None), default=root.co_firstlineno)


def _are_lean(pieces: Iterable[tuple[int, Version]]) -> bool:
    """True if a round computes little.

    There were as many rounds as the piece that ran most often has versions that ran.
    """
    operators, rounds = 0, Counter[int]()
    for code, version in pieces:
        hits = version.entry.hits + 1
        operators += version.piece.operators * hits
        rounds[code] += hits
    return operators < _FEW * max(rounds.values())
