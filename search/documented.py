"""Differences that docs/faq.md tells users of, recognised one by one: they are counted apart, and no mistakes.

A row says in which words the documentation has it, and knows it by what both runs showed and by its cause: the program
does not differ without the statement that the documentation speaks of, or what we give is what eager gives where that
has no effect.  `tests/test_25_search.py` has a program for each row, and one beside it that is a mistake all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from search.causes import Chosen, matching, without
from search.judge import Difference, differ
from search.observed import Sight
from search.program import MODES

Again = Callable[[str], Difference | None]
"""A function that gives the first difference of another text."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program, what both runs of a call let see, and where they differ first.

    ``before``: what eager let see in the call before.  ``again`` runs another text.  ``kept``: what eager lets see
    where it keeps what it saved as it was, whatever is written since; ``complete``: where each leaf gets its gradient.
    ``shaken`` is the call in eager with arguments whose last bits differ, in as many ways as there are seeds.
    ``written``: whether a tensor that left a compiled graph at the first version has the second one at the end.
    """

    text: str
    expected: Sequence[Sight]
    actual: Sequence[Sight]
    difference: Difference
    before: Sequence[Sight]
    again: Again
    kept: Callable[[], Sequence[Sight] | None]
    complete: Callable[[], Sequence[Sight] | None]
    shaken: Callable[[int], Sequence[Sight] | None]
    written: Callable[[int, int], bool]

    def errors(self) -> tuple[str, str]:
        """The errors of eager and of ours, in the function or behind it; empty where nothing was raised."""
        return _error(self.expected), _error(self.actual)

    def is_gone_without(self, function: str, chosen: Chosen) -> bool:
        """True if the program has such statements in ``function``, and does not differ without them."""
        text = without(self.text, function, chosen)
        return text is not None and self.again(text) is None

    @property
    def is_of_a_gradient(self) -> bool:
        """True if the difference is in a gradient of a leaf, or in one that was asked for."""
        where = self.difference.where
        asked_for = "torch.autograd.grad(" in self.text and where.startswith(("result", "after: state.out"))
        return ".grad" in where or asked_for


def _error(sights: Sequence[Sight]) -> str:
    return next((str(sight.facts[1]) for sight in sights if sight.where.endswith(("raised", "raised after"))), "")


_CHANGED = "modified by an inplace operation"
_VERSIONS = re.compile(rf"{_CHANGED}.* is at version (\d+); expected version (\d+) instead")
_OF_INFERENCE = "Inplace update to inference tensor outside InferenceMode"
_OTHER_SIZE = "shape mismatch: value tensor of shape"
_STALE = "invalid gradient"
_ASSIGNED = "attempting to assign a gradient of size"
_RESHAPED = matching(r"\.data = |\.(unsqueeze_|squeeze_|t_|transpose_|swapaxes_|resize_|set_)\b")


def _we_refuse(case: Case) -> bool:
    """True if we refuse because a tensor that left a graph at the version that is expected was written to
    afterwards."""
    eagers, ours = case.errors()
    versions = _VERSIONS.search(ours)
    return not eagers and versions is not None and case.written(int(versions[2]), int(versions[1]))


def _eager_refuses(case: Case) -> bool:
    """True if eager refuses and we give what was computed: what eager gives where it keeps what it saved."""
    eagers, ours = case.errors()
    if _CHANGED not in eagers or _CHANGED in ours:
        return False
    kept = case.kept()
    if kept is None:
        return False
    # Keeping what is saved is a mode itself, so modes are compared with eager's plain run.
    modes, others = _apart(case.actual)
    return _apart(case.expected)[0] == modes and differ(kept, others, lambda: None) is None


def _apart(sights: Sequence[Sight]) -> tuple[list[Sight], list[Sight]]:
    modes = [sight for sight in sights if sight.where.startswith(MODES)]
    return modes, [sight for sight in sights if not sight.where.startswith(MODES)]


def _through_data(case: Case) -> bool:
    """True for other values, or a mask that has another number of elements when it is computed again, after a write
    through ``.data``."""
    eagers, ours = case.errors()
    is_value = case.is_of_a_gradient and case.difference.kind == "value"
    is_mask = _OTHER_SIZE in ours and _OTHER_SIZE not in eagers
    return (is_value or is_mask) and case.is_gone_without("after", matching(r"\.data\."))


def _reshaped(case: Case) -> bool:
    """True if a leaf got another shape in place, and its gradient has another one or one of both refuses it."""
    eagers, ours = case.errors()
    refused = (_STALE in eagers and _STALE not in ours) or (not eagers and _ASSIGNED in ours)
    if not refused and not (case.difference.kind == "shape" and case.is_of_a_gradient):
        return False
    return any(case.is_gone_without(function, _RESHAPED) for function in ("program", "after"))


def _layout(case: Case) -> bool:
    """True if only the strides of gradients differ that were asked for in the function or behind it."""
    if case.difference.kind != "strides":
        return False
    returned = ["result", "after: result"] if "torch.autograd.grad(" in case.text else []
    asked = ("after: state.out", *returned)
    sides = [[_without_strides(sight, asked) for sight in sights] for sights in (case.expected, case.actual)]
    return differ(sides[0], sides[1], lambda: None) is None


_STRIDES = 3


def _without_strides(sight: Sight, asked: tuple[str, ...]) -> Sight:
    if sight.data is None or not sight.where.startswith(asked):
        return sight
    return replace(sight, facts=(*sight.facts[:_STRIDES], *sight.facts[_STRIDES + 1 :]))


def _hook_without_a_gradient(case: Case) -> bool:
    """True if a hook fails on the None that it is given for a result without a gradient."""
    eagers, ours = case.errors()
    hooks = matching(r"\.register_hook\(")
    return not eagers and "NoneType" in ours and case.is_gone_without("program", hooks)


def _made_in_inference_mode(case: Case) -> bool:
    """True if we refuse a write to what was detached of a tensor of inference mode; in another mode nobody does."""
    eagers, ours = case.errors()
    # Eager may come to another error later on.
    refused = _OF_INFERENCE in ours and _OF_INFERENCE not in eagers and re.search(r"\.data\b|\.detach\(", case.text)
    # The cause is told by doing without it: the same program under no_grad.
    return bool(refused) and case.again(case.text.replace("torch.inference_mode(", "torch.no_grad(")) is None


def _memory_of_what_was_handed(case: Case) -> bool:
    """True if eager's gradient is in the memory of the tensor that the program hands to `backward`."""
    apart = re.sub(r"gradient=([^()]+)\)", r"gradient=\1.clone())", case.text)
    return apart != case.text and case.again(apart) is None


def _after_an_error(case: Case) -> bool:
    """True if both raise the same, and gradients alone differ: each is what it was, or what it is where nothing
    raises."""
    eagers, ours = case.errors()
    if not eagers or eagers != ours:
        return False
    older = {sight.where.removeprefix("after: "): sight for sight in case.before}
    expected, actual = (_gradients(sights) for sights in (case.expected, case.actual))
    apart = [where for where, sights in expected.items() if _differ(sights, actual.get(where, []))]
    others = [[each for each in sights if ".grad" not in each.where] for sights in (case.expected, case.actual)]
    complete = _gradients(case.complete() or ())
    if not apart or not complete or differ(others[0], others[1], lambda: None) is not None:
        return False
    # A gradient may have arrived before the error or not; anything between the two is a mistake.
    known = {where: [_one(older, where), complete.get(where, [])] for where in apart}
    return all(
        any(_differ(each, side.get(where, [])) is None for each in known[where])
        for where in apart
        for side in (expected, actual)
    )


def _gradients(sights: Sequence[Sight]) -> dict[str, list[Sight]]:
    return {sight.where: [sight] for sight in sights if sight.where.endswith(".grad")}


def _one(older: dict[str, Sight], where: str) -> list[Sight]:
    return [older.get(where, Sight(where, ("NoneType", "None")))]


def _differ(expected: Sequence[Sight], actual: Sequence[Sight]) -> Difference | None:
    plain = [[replace(sight, where="") for sight in sights] for sights in (expected, actual)]
    return differ(plain[0], plain[1], lambda: None)


def _gelu_of_infinity(case: Case) -> bool:
    """True if ours is infinite where eager says NaN, and nothing else differs."""
    if case.difference.kind != "value" or "gelu(" not in case.text:
        return False
    pairs = zip(case.expected, case.actual, strict=False)
    return differ([_infinite_alike(*pair) for pair in pairs], case.actual, lambda: None) is None


def _infinite_alike(expected: Sight, actual: Sight) -> Sight:
    one, other = expected.data, actual.data
    if one is None or other is None or not one.is_floating_point() or one.shape != other.shape:
        return expected
    return replace(expected, data=torch.where(one.isnan() & other.isinf(), other, one))


def _hangs_on_rounding(case: Case) -> bool:
    """True if eager itself gives results as far apart, each element of them, for arguments that differ in their last
    bits."""
    if case.difference.kind not in ("value", "sign of zero"):
        return False
    runs = [run for seed in range(_SHAKES) if (run := case.shaken(seed)) is not None]
    apart = [
        pair for pair in zip(case.expected, case.actual, strict=False) if differ([pair[0]], [pair[1]], lambda: None)
    ]
    return bool(runs) and all(is_within(one, other, runs) for one, other in apart)


def is_within(expected: Sight, actual: Sight, runs: Sequence[Sequence[Sight]]) -> bool:
    """True if ours lies among eager's own results, or beyond them by no more than a quarter of how far they are
    apart."""
    found = [sight for run in runs for sight in run if sight.where == expected.where]
    if expected.data is None and expected.facts[0] == "int":  # a number that was read from a tensor
        return actual.facts in [sight.facts for sight in found]
    if expected.facts != actual.facts or any(sight.facts != expected.facts for sight in found):
        return False
    values = [
        sight.data.double() for sight in (expected, *found) if sight.data is not None and not sight.data.is_complex()
    ]
    # Some of the runs do not have the tensor, or it is complex.
    if len(values) <= len(runs) or actual.data is None:
        return False
    every = torch.stack(values)
    least, most = every.amin(0), every.amax(0)
    ours, room = actual.data.double(), (most - least) / 4
    same = (ours == values[0]) | (ours.isnan() & values[0].isnan())  # infinities are apart by no number
    return bool((same | ((ours >= least - room) & (ours <= most + room))).all())


_SHAKES = 16


DOCUMENTED: dict[str, Callable[[Case], bool]] = {
    "a weight that is changed between a compiled forward and its backward is an error also where eager had saved "
    "something else": _we_refuse,
    "a result that the program writes to before it goes backward through it: eager refuses where it saved what was "
    "written, ours may give the gradients of what was computed": _eager_refuses,
    "weights or inputs that are written through `.data` between a compiled forward and its backward": _through_data,
    "a parameter that gets another shape while a graph from before is alive": _reshaped,
    "how a gradient lies in memory where the one that arrives has another layout": _layout,
    "a gradient has memory of its own": _memory_of_what_was_handed,
    "a hook on one of several results may be called with None": _hook_without_a_gradient,
    "what was made in inference mode and is detached outside of it may be written to in eager; where it leaves a graph "
    "it may not": _made_in_inference_mode,
    "parameters of one compiled function get their gradients in another order than in eager": _after_an_error,
    "`gelu(inf)` is infinite": _gelu_of_infinity,
    "what hangs on the last bit of its arguments hangs on the order of a sum": _hangs_on_rounding,
}


def documented(case: Case) -> str:
    """The words of the documentation that tell of the difference; none of a mistake."""
    return next((words for words, is_so in DOCUMENTED.items() if is_so(case)), "")
