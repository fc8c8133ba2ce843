"""The entry kept for each code object: its versions, its dynamic inputs, and when to give up.

Guarded entries themselves live in the engine, beside the code object, and die with it; here is what explains them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, TypeAlias

import torch

from capture import _engine
from capture._engine import GuardedCode, add_entry, drop_entries
from capture.errors import Location
from capture.evaluator.assumptions import Learnt
from capture.guards.guard import Failure, Guard
from capture.guards.kinds import NEEDS, GuardKind
from capture.guards.layouts import CLOSED, varied
from capture.guards.sources import Inputs, MadeSource, Source
from capture.guards.words import answers_by_code
from capture.log import FallbackRecord
from capture.options import Options
from capture.reasons import Kind, Reason
from capture.silence import looking, silenced

Verdict: TypeAlias = "GuardedCode | CodeType | _engine.Decision"
"""The answer to the engine about a frame: code under guards, other code for CPython, or a decision to run it as it
is."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The weight of a version: how much it computes, and which instructions of the program's code it stands for."""

    operators: int
    visited: frozenset[int]
    breaks: bool


@dataclass(slots=True)
class Version:
    """One guarded entry and the meaning of its checks.  The guards hold no object of the user's."""

    entry: GuardedCode
    guards: tuple[Guard, ...]
    piece: Piece
    once: bool = False
    """True if its graph runs as recorded, as no other call is expected to fit: the first that does is up for review."""
    changed: frozenset[Source] = frozenset()
    """The sources that its own effects change.  That these differ later says nothing of the calls."""

    def stays(self) -> GuardedCode:
        """The code of a version that is kept; it is reviewed later if it still has to be."""
        if self.once:
            self.entry.review = self.entry.hits + 1
        return self.entry

    def first_failure(self, inputs: Inputs) -> Guard | None:
        """The first guard that a call does not fit; None if it fits."""
        index = self.entry.guards.first_failure(inputs.function, inputs.args)
        return None if index is None else self.guards[index]

    def differing(self, inputs: Inputs) -> Difference:
        """The tensors and numbers that are others than before; none where more than sizes and values differ."""
        found, wrote = [], False
        with silenced():
            failures = self.entry.guards.failures(inputs.function, inputs.args)
        for guard in map(self.guards.__getitem__, failures):
            # No news of the call: the version would have failed for the very same call.
            if self._is_our_own(guard):
                wrote = True
                continue
            if guard.kind in (GuardKind.TENSOR, GuardKind.EQUALS):
                actual, expected = _read(guard, inputs), guard.payload[0]
                if not _is_another_number(guard.kind, expected, actual):
                    return NOT_COMPARABLE
                if guard.kind is GuardKind.EQUALS or varied(expected[4], expected[5], actual):
                    found.append((guard, actual))
            # Another kind of call: its sizes say nothing of how this version's vary.
            elif guard.kind in (GuardKind.TYPE, GuardKind.LENGTH):
                return NOT_COMPARABLE
        return Difference(found, wrote)

    def _is_our_own(self, guard: Guard) -> bool:
        """True if the guard fails for what this version wrote.

        Sizes and numbers that it wrote may vary as others do.
        """
        if not self.changed or guard.source is None or self.changed.isdisjoint(guard.source.chain()):
            return False
        varies = guard.kind is GuardKind.TENSOR or (
            guard.kind is GuardKind.EQUALS and type(guard.payload[0]) in _NUMBERS
        )
        return not (guard.source in self.changed and varies)


def _is_another_number(kind: GuardKind, expected: Any, actual: object) -> bool:
    if kind is GuardKind.TENSOR:
        return _is_like(actual, expected)
    return type(actual) is type(expected) and type(actual) in _NUMBERS


_ABSENT = object()
_NUMBERS = (int, float)


def _read(guard: Guard, inputs: Inputs) -> object:
    """The object that a guard is about, in this call."""
    if guard.source is None:
        return _ABSENT
    try:
        with silenced():  # gradients of what is no leaf are among what is read
            return guard.source.read(inputs)
    except (AttributeError, KeyError, IndexError, ValueError, TypeError):
        return _ABSENT


def _has_sizes(value: Any) -> bool:
    return issubclass(type(value), torch.Tensor) and not answers_by_code(type(value)) and not value.is_nested


def _is_like(actual: Any, expected: tuple[Any, ...]) -> bool:
    """True if a tensor differs from an expected one in nothing but its sizes and strides."""
    if type(actual) is not expected[0] or actual.is_nested:
        return False
    same = (type(actual), actual.dtype, actual.device, actual.requires_grad) == expected[:4]
    return same and len(expected[4]) == actual.dim()


@dataclass(slots=True, frozen=True)
class Difference:
    """The tensors and numbers in which a call differs from a version.

    ``wrote``: the version itself wrote over something that it relied on.
    """

    found: Sequence[tuple[Guard, object]]
    wrote: bool

    def distance(self) -> tuple[bool, int]:
        """The measure by which the most similar version is found.

        A prompt has fewer tensors than a step with a cache, so it differs in fewer from the next step; yet it filled
        the cache, and no call after it is like it.
        """
        return self.wrote, len(self.found)


NOT_COMPARABLE = Difference((), wrote=False)


@dataclass(slots=True)
class CodeState:
    """All that is kept for one code object: its versions, and what is learnt of its frames."""

    versions: list[Version] = field(default_factory=list)
    learnt: Learnt = field(default_factory=Learnt)
    failures: list[Failure] = field(default_factory=list)
    left_idle: int = 0  # calls that CPython ran because no tensor was within their reach
    decided: Verdict | None = None  # by a call that ended in a warning that is an error
    loops_let_go: list[frozenset[int]] = field(default_factory=list)
    key: str | None = None  # of a store, for the evaluation that is under way

    def add(self, version: Version) -> None:
        self.versions.append(version)
        version.stays()

    def drop(self, gone: Version, code: CodeType, owner: object) -> None:
        """Takes a version away, in whose place another one is to be made."""
        self.versions = [version for version in self.versions if version is not gone]
        drop_entries(code, owner)
        for version in self.versions:
            add_entry(code, version.entry)

    def is_compiled(self) -> bool:
        """True if a backend was asked for this code."""
        return any(version.entry.code is not None and not version.once for version in self.versions)

    def reaches(self, limit: int) -> bool:
        """True if there are as many versions as may be, of those to stay or of those that run once."""
        once = sum(version.once for version in self.versions)
        return max(once, len(self.versions) - once) >= limit

    def due(self, inputs: Inputs) -> Version | None:
        """The version that fits and is up for review."""
        found = (version for version in self.versions if version.entry.review == version.entry.hits != 0)
        return next((each for each in found if each.entry.guards.check(inputs.function, inputs.args)), None)

    def is_idle(self) -> bool:
        """True if nothing was compiled for this code: no call of it computed a tensor."""
        return all(version.entry.code is None for version in self.versions)

    def fitting(self, inputs: Inputs) -> GuardedCode | None:
        """The entry that a call fits, if there is one."""
        entries = (version.entry for version in self.versions)
        return next((entry for entry in entries if entry.guards.check(inputs.function, inputs.args)), None)

    def why(self, inputs: Inputs) -> str | None:
        """A sentence about the newest version, or None if there is none yet."""
        if not self.versions:
            return None
        with looking():
            failed = self.versions[-1].first_failure(inputs)
            failure = Failure("the guards of an earlier call") if failed is None else failed.failure(inputs)
        self.failures.append(failure)
        return str(failure)

    def learn(self, inputs: Inputs, options: Options) -> None:
        """Makes symbolic, all at once, the sizes and numbers that differ from the most similar version's.

        So does the first that differs from each other version's: what comes back in turns varies, too.
        """
        with looking():
            differing = [version.differing(inputs) for version in self.versions]
            nearest = min((each for each in differing if each.found), key=Difference.distance, default=NOT_COMPARABLE)
            for guard, actual in nearest.found:
                self._generalize(guard, actual, options)
            for version in self.versions:
                failed = version.first_failure(inputs)
                if failed is not None and (found := _read(failed, inputs)) is not _ABSENT:
                    self._generalize(failed, found, options)

    def _generalize(self, failed: Guard, actual: object, options: Options) -> None:
        """Learns that what a guard compared varies: a number, a length, or sizes and strides."""
        assert failed.source is not None
        known = self.learnt.assumptions
        if failed.kind is GuardKind.EQUALS and self._is_our_own(failed.source, actual):
            return
        if failed.kind is GuardKind.EQUALS and type(failed.payload[0]) is type(actual):
            if type(actual) is int and not options.specialize_int:
                self.learnt.learn(ints=known.ints | {failed.source})
            elif type(actual) is float and not options.specialize_float:
                self.learnt.learn(floats=known.floats | {failed.source})
        elif failed.kind is GuardKind.LENGTH and type(actual) is list and not options.specialize_int:
            self.learnt.learn(ints=known.ints | {MadeSource(failed.source, len)})
        elif failed.kind is GuardKind.TENSOR and _has_sizes(actual):
            sizes, strides = failed.payload[0][4:6]
            layout = known.layouts.get(failed.source, CLOSED) | varied(sizes, strides, actual)
            self.learnt.remember(known.with_layout(failed.source, layout))

    def _is_our_own(self, source: Source, actual: object) -> bool:
        """True if a number is another one because the frame itself wrote it, which it may have done for good."""
        written = self.learnt.written.get(source)
        return type(written) is type(actual) and repr(written) == repr(actual)


class Cache:
    """The states of all code objects under one configuration.

    By identity: code objects of different files, or of one text that was executed twice, are equal.
    """

    def __init__(self) -> None:
        self._states: dict[int, tuple[weakref.ref[CodeType], CodeState]] = {}

    def state(self, code: CodeType) -> CodeState:
        """The state of a code object, which goes when the code does."""
        known = self._states.get(id(code))
        if known is not None and known[0]() is code:
            return known[1]
        key, states = id(code), self._states

        def forget(gone: weakref.ref[CodeType]) -> None:
            if key in states and states[key][0] is gone:
                del states[key]

        state = CodeState()
        states[key] = weakref.ref(code, forget), state
        return state

    def codes(self) -> list[CodeType]:
        return [code for reference, _ in list(self._states.values()) if (code := reference()) is not None]

    def clear(self) -> None:
        self._states.clear()

    def drop(self, owner: object | None = None) -> None:
        """Forgets everything, in the engine too: what is ``owner``'s, and what was of owners gone."""
        for code in self.codes():
            drop_entries(code, owner or self)  # the cache itself owns nothing
        self.clear()


def without_objects(guards: Sequence[Guard]) -> tuple[Guard, ...]:
    """The guards with their sentences fixed, and without what would keep the user's objects alive."""
    return tuple(
        replace(
            guard,
            payload=guard.payload if NEEDS[guard.kind].stays else (),
            text=guard.sentence(),
            kept_words=guard.wanted_words(),
        )
        for guard in guards
    )


def too_many(location: Location, state: CodeState, limit: int) -> FallbackRecord:
    """The record that CPython runs a function from now on, with what differed in the last calls."""
    each = {failure.said: failure for failure in state.failures}  # wherever it was assumed
    varied = "; ".join(map(str, list(each.values())[-3:]))
    if state.is_idle():
        return FallbackRecord(location, Reason(Kind.IDLE, f"{limit} calls that differ computed no tensor: {varied}"))
    explanation = f"{limit} versions exist already and none fits: {varied}"
    return FallbackRecord(
        location, Reason(Kind.RECOMPILE_LIMIT, explanation, "raise recompile_limit, or make what varies a tensor")
    )
