"""Differences that docs/faq.md tells users of, recognised one by one: they are counted apart, and no mistakes.

A row says in which words the documentation has it, and knows it by the program's text and by what both runs showed.  It
must be as narrow as that can be known: `tests/test_25_search.py` has a program for each, and one beside each that is a
mistake all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from search.judge import Difference
from search.observed import Sight


@dataclass(frozen=True, slots=True)
class Case:
    """A program, what both runs of a call let see, and where they differ first."""

    text: str
    expected: Sequence[Sight]
    actual: Sequence[Sight]
    difference: Difference

    @property
    def is_of_a_gradient(self) -> bool:
        """Whether it is a gradient of a leaf, or one that was asked for."""
        where = self.difference.where
        asked_for = "torch.autograd.grad(" in self.text and where.startswith(("result", "after: state.out"))
        return ".grad" in where or asked_for

    def errors(self) -> tuple[str, str]:
        """What eager and we raised, in the function or behind it; nothing where nothing was raised."""
        return _error(self.expected), _error(self.actual)

    def after(self) -> str:
        """What the program does with the result."""
        return self.text.partition("def after(")[2].partition("def change(")[0]


def _error(sights: Sequence[Sight]) -> str:
    return next((str(sight.facts[1]) for sight in sights if sight.where.endswith(("raised", "raised after"))), "")


_CHANGED = "modified by an inplace operation"
_STALE = "invalid gradient"
_RESHAPED = re.compile(r"\.data = |\.(unsqueeze_|squeeze_|t_|transpose_|swapaxes_|resize_|set_)\(")


def _refused_by_one(case: Case) -> bool:
    eagers, ours = case.errors()
    return (_CHANGED in eagers) != (_CHANGED in ours) and not (eagers and ours)


def _through_data(case: Case) -> bool:
    return case.is_of_a_gradient and case.difference.kind == "value" and ".data." in case.after()


def _reshaped(case: Case) -> bool:
    eagers, ours = case.errors()
    refused = _STALE in eagers and _STALE not in ours
    return bool(_RESHAPED.search(case.text)) and (
        refused or (case.difference.kind == "shape" and case.is_of_a_gradient)
    )


def _layout(case: Case) -> bool:
    return case.difference.kind == "strides" and case.difference.where.startswith("after: state.out")


def _hook_without_a_gradient(case: Case) -> bool:
    eagers, ours = case.errors()
    return "register_hook" in case.text and not eagers and "NoneType" in ours


DOCUMENTED: dict[str, Callable[[Case], bool]] = {
    "a weight that is changed between a compiled forward and its backward is an error also where eager had saved "
    "something else; eager refuses where it saved what was written": _refused_by_one,
    "weights or inputs that are written through `.data` between a compiled forward and its backward": _through_data,
    "a parameter that gets another shape while a graph from before is alive": _reshaped,
    "how a gradient lies in memory where the one that arrives has another layout": _layout,
    "a hook on one of several results may be called with None": _hook_without_a_gradient,
}


def documented(text: str, expected: Sequence[Sight], actual: Sequence[Sight], difference: Difference) -> str:
    """The words of the documentation that tell of the difference; none of a mistake."""
    case = Case(text, expected, actual, difference)
    return next((words for words, is_so in DOCUMENTED.items() if is_so(case)), "")
