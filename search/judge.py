"""The judge: two runs are the same to everybody, or, where they differ in rounding alone, ours is near enough, or they
differ.

The judge of rounding is a third run, in float64: ours may be no further from it than twice eager's distance, plus
``SLACK`` steps of the type (``HALF_SLACK`` of a half) at the size of what is compared.  The slack is for where eager is
exactly right by luck: an honest sum in another order is a few roundings off, a mistake is thousands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from search.observed import SHARES, Sight

SLACK = 16
HALF_SLACK = 4
EXACT = 1e-12
BLIND = 16
"""Steps, or a hundredth where that is more: a float64 run further than this from eager took another way, or drew other
numbers, and judges nothing; unless ours is that many times nearer to it, which no mistake is by chance."""

Reference = Callable[[], Sequence[Sight] | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that somebody could see."""

    kind: str
    where: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.actual} instead of {self.expected}"


def differ(
    expected: Sequence[Sight], actual: Sequence[Sight], reference: Reference, coarsest: float = 0.0
) -> Difference | None:
    """The first difference, or None.  ``reference`` is asked for only where results are near each other and not the
    same; ``coarsest`` is the step of the smallest type on the way to them."""
    shapes = {sight.where: sight.facts[2] for sight in expected if sight.data is not None}
    pairs = [pair for pair in zip(expected, actual, strict=False) if not _fits_ours_alone(*pair, shapes)]
    for one, other in pairs:  # what is not a matter of rounding says more
        if one.where != other.where:
            return Difference("structure", f"{one.where} / {other.where}", _with_error(one), _with_error(other))
        if one.facts != other.facts and not _owns(one, other) and not _are_floats(one, other):
            return Difference(kind_of(one.facts, other.facts), one.where, str(one.facts), str(other.facts))
    if len(expected) != len(actual):
        return Difference("structure", "the end", str(len(expected)), str(len(actual)))
    for one, other in pairs:
        if one.facts != other.facts and _are_floats(one, other):
            difference = _judged_float(one, other, reference)
            if difference is not None:
                return difference
        if one.data is not None and other.data is not None and not same_bits(one.data, other.data):
            difference = _judged(one, other, reference, coarsest)
            if difference is not None:
                return difference
    return None


def _owns(expected: Sight, actual: Sight) -> bool:
    """Each leaf owns its gradient in compiled code; eager may give two leaves views of one memory, or a leaf what the
    program holds."""
    if SHARES not in expected.facts:
        return False
    at = expected.facts.index(SHARES)
    is_one = expected.where.endswith(".grad") or str(expected.facts[at + 1]).endswith(".grad")
    return is_one and actual.facts == expected.facts[:at]


def _fits_ours_alone(expected: Sight, actual: Sight, shapes: Mapping[str, object]) -> bool:
    """A gradient of another shape than its leaf's, which got that by ``.data``, is eager's own fault: it sums to the
    shape that the leaf had when a graph first led there."""
    if expected.where != actual.where or not expected.where.endswith(".grad"):
        return False
    leafs = shapes.get(expected.where.removesuffix(".grad"))
    found = [sight.facts[2] if sight.data is not None else leafs for sight in (expected, actual)]
    return found[0] != leafs and found[1] == leafs and actual.data is not None


def _are_floats(one: Sight, other: Sight) -> bool:
    return one.facts[:1] == other.facts[:1] == ("float",)


def _judged_float(one: Sight, other: Sight, reference: Reference) -> Difference | None:
    """A number of Python's is right to the bit, unless it was read out of a tensor with less: float64 shows that, or
    that both numbers are some that such a tensor holds, where eager is exactly right by luck."""
    expected, actual = (float(sight.facts[1]) for sight in (one, other))
    said = Difference("value", one.where, str(expected), str(actual))
    truths = [sight for sight in reference() or () if sight.where == one.where and sight.facts[:1] == ("float",)]
    size = max(1.0, abs(expected))
    if not truths or not math.isfinite(actual):
        return said
    exact = abs(expected - float(truths[0].facts[1])) <= EXACT * size
    # A number of Python's own, not one read out of a tensor: other bits are a mistake.
    if exact and not (_is_single(expected) and _is_single(actual)):
        return said
    truth = float(truths[0].facts[1])
    allowed = 2 * abs(expected - truth) + SLACK * torch.finfo(torch.float32).eps * size
    return said if abs(actual - truth) > allowed else None


def _is_single(number: float) -> bool:
    return torch.tensor(number, dtype=torch.float32).item() == number


def _with_error(sight: Sight) -> str:
    return f"{sight.where} {sight.facts[:2]}" if "raised" in sight.where else sight.where


NAMES = ("type", "dtype", "shape", "strides", "requires_grad", "is_leaf")


def kind_of(expected: tuple[object, ...], actual: tuple[object, ...]) -> str:
    """The kind of difference between two lists of facts; a missing or added gradient is told by None."""
    if "NoneType" in (expected[:1] + actual[:1]):
        return "None for a value" if actual[0] == "NoneType" else "a value for None"
    if "is" in (expected[0], actual[0]):
        return "identity"
    # Two tensors: the first fact that differs names the kind.
    if len(expected) >= len(NAMES) and len(actual) >= len(NAMES):
        names = [name for name, one, other in zip(NAMES, expected, actual, strict=False) if one != other]
        return names[0] if names else "memory shared"
    return "value" if expected[0] == actual[0] else "type"


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True for equal bits: NaN as NaN, and zeros with their signs."""
    if not (one.is_floating_point() or one.is_complex()):
        return torch.equal(one, other)
    if one.is_complex():
        return same_bits(torch.view_as_real(one), torch.view_as_real(other))
    both_nan = one.isnan() & other.isnan()
    return bool((both_nan | ((one == other) & (one.signbit() == other.signbit()))).all())


def _judged(one: Sight, other: Sight, reference: Reference, coarsest: float) -> Difference | None:
    expected, actual = one.data, other.data
    assert expected is not None
    assert actual is not None
    said = Difference("value", one.where, printed(expected), printed(actual))
    if not expected.is_floating_point():
        return said
    finite = expected.isfinite()
    # Infinities and NaNs are no matter of rounding.
    if not same_bits(expected[~finite], actual[~finite]) or not bool(actual[finite].isfinite().all()):
        return said
    ours, eagers = actual[finite].double(), expected[finite].double()
    size = max(1.0, *eagers.abs().tolist())
    eps = torch.finfo(expected.dtype).eps
    slack = (SLACK if eps < 1e-4 else HALF_SLACK) * eps * size
    apart = float((ours - eagers).abs().max())
    if apart == 0:
        return Difference("sign of zero", one.where, printed(expected), printed(actual))
    # Nothing rounds that far: float64 need not be asked.
    if apart > 2.0**-4 * size:
        return said
    truth = _at(reference(), one)
    if truth is None:
        return said if apart > slack else None
    near, far = (float((found - truth[finite]).abs().max()) for found in (ours, eagers))
    # The float64 run took another way: only the slack is left to judge by.
    if far > max(0.01, BLIND * max(eps, coarsest)) * size and near > far / BLIND:
        return said if apart > slack else None
    return said if near > 2 * far + slack else None


def _at(sights: Sequence[Sight] | None, one: Sight) -> torch.Tensor | None:
    """The float64 run's answer for the same place."""
    for sight in sights or ():
        if sight.where == one.where and sight.data is not None and one.data is not None:
            fits = sight.data.shape == one.data.shape and sight.data.is_floating_point()
            return sight.data.double().nan_to_num() if fits else None
    return None


def printed(value: torch.Tensor) -> str:
    text = str(value.flatten()[:16].tolist())
    return text if len(text) < 300 else text[:300] + "..."
