"""Runs one program in eager and compiled, and tells the first difference."""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import capture
from search.documented import Case, documented
from search.generator import BESIDE_A_THREAD
from search.judge import Difference, differ
from search.observed import Sight
from search.program import (
    Call,
    Compiler,
    calls,
    coarsest,
    kept_as_saved,
    reference,
    with_all_gradients,
    with_other_last_bits,
)
from search.watched import Watch, watching

BACKENDS = ("eager", "aot_eager", "inductor")
SAID_ON_PURPOSE = "versions exist already and none fits"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a program: the first difference, if any, whether eager raised, and how many graphs there were.

    ``documented`` has the words of the documentation where it tells of what differs: no difference then.
    """

    difference: Difference | None
    raised: bool
    graphs: int
    call: int = 0
    documented: str = ""

    @property
    def signature(self) -> str:
        """The kind of difference, coarsely, so that making a program small keeps to one mistake."""
        found = self.difference
        if found is None:
            return ""
        where = " for ".join(map(_part, reversed(found.where.split(" / "))))
        more = f" {_words(found.actual)}" if "raised" in where or found.kind == "warning" else ""
        return f"{found.kind} {where}{more}"


def _part(where: str) -> str:
    """The coarse place of a difference: gradients as such; everything else by the argument or part of the result that
    it is in."""
    stage = "after " if where.startswith("after: ") else ""
    if ".grad" in where:
        return stage + "grad"
    return stage + ".".join(re.split(r"[.\[]", where.removeprefix("after: "))[: 2 if where.startswith("state") else 1])


def _words(text: str) -> str:
    """The words of a message without what a program brought to it."""
    return " ".join(re.findall(r"(?<![.\w'])[A-Za-z]{2,}(?![.\w'(])", text)[:12])


def compiler(backend: str, log: capture.Log | None = None) -> Compiler:
    """The backend's compiler; ``eager`` needs capture alone, the others need compile_api."""
    if backend == "eager":
        return capture.optimize("eager", log=log) if log is not None else capture.optimize("eager")
    import compile_api

    return partial(compile_api.compile, backend=backend)


def judge(text: str, backend: str) -> Verdict:
    """The verdict on a text, run in eager and compiled by a backend; beside a thread that waits if the text says so."""
    capture.reset()
    # Graphs are counted where capture alone is searched.
    log = capture.Log() if backend == "eager" else None
    with beside_a_thread() if BESIDE_A_THREAD in text else contextlib.nullcontext():
        return compared(text, compiler(backend, log), log, partial(watching, backend))


@contextlib.contextmanager
def beside_a_thread() -> Iterator[None]:
    """Has another thread wait meanwhile."""
    done = threading.Event()
    waiting = threading.Thread(target=done.wait, daemon=True)
    waiting.start()
    try:
        yield
    finally:
        done.set()
        waiting.join()


def compared(
    text: str,
    compile_it: Compiler,
    log: capture.Log | None = None,
    watched: Callable[[Watch], Compiler] | None = None,
) -> Verdict:
    """The verdict of both runs, which go call by call and end at the first difference.  ``watched`` compiles in the
    same way."""
    found = _first(text, compile_it, log)
    if found.difference is None or found.calls is None:
        return found.verdict
    # Everything that takes another run is asked for only where a row of the documentation needs it.
    case = Case(
        text,
        *(call.sights for call in found.calls),
        found.difference,
        found.before,
        again=partial(_again, compile_it),
        kept=partial(kept_as_saved, text, found.verdict.call + 1),
        complete=partial(with_all_gradients, text, found.verdict.call + 1),
        shaken=partial(with_other_last_bits, text, found.verdict.call + 1),
        written=partial(_written, text, found.verdict.call + 1, watched),
    )
    told = documented(case)
    return replace(found.verdict, difference=None, documented=told) if told else found.verdict


@dataclass(frozen=True, slots=True)
class _Found:
    """The verdict as the runs have it, both calls that differ, and what eager let see in the one before."""

    verdict: Verdict
    calls: tuple[Call, Call] | None = None
    before: Sequence[Sight] = ()

    @property
    def difference(self) -> Difference | None:
        return self.verdict.difference


def _again(compile_it: Compiler, text: str) -> Difference | None:
    capture.reset()
    return _first(text, compile_it, None).difference


def _written(text: str, count: int, watched: Callable[[Watch], Compiler] | None, left_at: int, found_at: int) -> bool:
    """True if a third run shows a write between a compiled forward and its backward."""
    if watched is None:
        return False
    capture.reset()
    watch = Watch()
    ended = list(itertools.islice(calls(text, watched(watch)), count))
    return len(ended) == count and watch.was_written(left_at, found_at)


def _first(text: str, compile_it: Compiler, log: capture.Log | None) -> _Found:
    """The first difference between both runs, or that there is none."""
    raised = False
    before: Sequence[Sight] = ()
    pairs = zip(calls(text, _as_it_is), calls(text, compile_it), strict=True)
    for index, (expected, actual) in enumerate(pairs):
        raised = raised or expected.raised
        difference = _difference(text, index, expected, actual)
        if difference is not None:
            return _Found(Verdict(difference, raised, _graphs(log), index), (expected, actual), before)
        before = expected.sights
    return _Found(Verdict(None, raised, _graphs(log)))


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _graphs(log: capture.Log | None) -> int:
    return sum(isinstance(one, capture.GraphRecord) for one in log.records()) if log is not None else 0


def _difference(text: str, index: int, expected: Call, actual: Call) -> Difference | None:
    """The difference of one call: in what it let see, or in a warning of ours that eager does not give."""
    found = differ(expected.sights, actual.sights, partial(reference, text, index + 1), coarsest(text))
    if found is not None:
        return found
    for one in actual.warned:
        if one not in expected.warned and SAID_ON_PURPOSE not in one:
            return Difference("warning", "warnings", "", one)
    return None
