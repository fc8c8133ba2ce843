"""Code that no call after this one can use is not compiled: its graph runs as it was recorded.

    first call    guards hold, its own effects break them      run as recorded; the next call is captured anew
    second call   the steady state                             compiled
    or: the program put things back, the same guards hold      captured again, and compiled after all

A first training step is like that, which gives parameters their gradients and an optimizer its state, and the first
call of whatever fills a cache.  A backend that takes long says that it wants this, by an attribute
``spares_single_runs = True``.  All others are given every graph.

Here is also what is learnt of such code: a number that a frame changed in one version, and would change in the next,
varies.
"""

from __future__ import annotations

from collections.abc import Collection

from capture.evaluator.assumptions import Learnt
from capture.guards.sources import Source, may_be_dynamic
from capture.options import Options
from capture.reasons import Kind, Reason
from capture.writing.own_effects import OwnChange, describe

_CONSTANT = (0, 1)
"""The whole numbers that never become symbols."""


def spares(backend: object) -> bool:
    """True if a backend is to be spared the graphs that run once."""
    return bool(getattr(backend, "spares_single_runs", False))


def reason_of(changes: Collection[OwnChange]) -> Reason:
    explanation = f"run as recorded once: its own effects change what it relies on ({describe(list(changes))})"
    return Reason(Kind.OWN_EFFECTS, explanation)


def remember_numbers(learnt: Learnt, changes: Collection[OwnChange]) -> None:
    learnt.written.update({change.source: change.becomes for change in changes if change.was is not None})


def numbers_that_vary(
    learnt: Learnt, changes: Collection[OwnChange], options: Options
) -> tuple[dict[str, frozenset[Source]], bool]:
    """The dynamic ints and floats, with those that an earlier version changed as this one does.

    And whether evaluation would find symbols in the place of some constants.
    """
    known = learnt.assumptions
    again = [change for change in changes if change.source in learnt.written and may_be_dynamic(change.source)]
    ints = {each.source for each in again if type(each.was) is int and not options.specialize_int} - known.ints
    floats = {each.source for each in again if type(each.was) is float and not options.specialize_float} - known.floats
    if options.dynamic is False or not ints | floats:
        return {}, False
    symbols = any(each.source in ints and each.was not in _CONSTANT for each in again)
    return {"ints": known.ints | ints, "floats": known.floats | floats}, symbols or bool(floats)
