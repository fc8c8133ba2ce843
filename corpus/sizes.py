"""``python -m corpus.sizes [part of a name ...] [--compiled] [--gradients]``: operators that do not take other sizes.

Every operator and module of torch's, over six lengths: at most as many graphs again as the first length took, and
eager's results, strides and gradients.
"""

from __future__ import annotations

import argparse
import copy
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import capture
import compile_api
from corpus.runner import tensors
from corpus.stretched import LENGTHS, Stretched, copied, counted, of_modules, of_operator, operators, reasons

RANDOM_MEMORY = ("empty", "new_empty", "resize")


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of capturing one function at all lengths."""

    sample: Stretched
    difference: str
    first: tuple[int, int]
    all: tuple[int, int]
    reasons: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return not self.difference

    @property
    def serves_all(self) -> bool:
        """One more graph than for the first length, for each part that it was in."""
        (graphs, breaks), (all_graphs, all_breaks) = self.first, self.all
        return all_graphs <= 2 * graphs and all_breaks <= 2 * breaks

    def __str__(self) -> str:
        text = f"{self.sample}: graphs {self.first[0]} -> {self.all[0]}, breaks {self.first[1]} -> {self.all[1]}"
        told = [self.difference] if self.difference else []
        return "\n    ".join([text, *told, *self.reasons])


def run(sample: Stretched, optimize: Callable[..., Any], log: capture.Log, gradients: bool, exact: bool) -> Seen:
    """Captured once, then called at each length beside eager; the counts after the second length are the measure."""
    difference, counts = "", [(0, 0)]
    plain = sample.function
    # A module has state that calls change; a function has none.
    captured = optimize(copy.deepcopy(plain) if isinstance(plain, torch.nn.Module) else plain)
    try:
        _outcome(plain, copied(sample.calls[0], gradients))
    except RuntimeError:  # an operator that writes to a leaf
        gradients = False
    for length, call in zip(LENGTHS, sample.calls, strict=True):
        expected = _outcome(plain, copied(call, gradients))
        if length == LENGTHS[0] and differs(expected, _outcome(plain, copied(call, gradients)), "", True):
            return Seen(sample, "", (0, 0), (0, 0), ())  # what eager itself gives depends on memory that is nobody's
        actual = _outcome(captured, copied(call, gradients))
        difference = difference or differs(expected, actual, f"at {length}", exact)
        counts.append(counted(log))
    return Seen(sample, difference, counts[1], counts[-1], reasons(log))


def _outcome(function: Callable[..., Any], call: Any) -> Any:
    """The results, the gradients of the floating inputs, and the inputs as they are afterwards."""
    args, kwargs = call
    torch.manual_seed(1)
    result = function(*args, **kwargs)
    leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    losses = [found.abs().sum() for found in _tensors(result) if found.requires_grad and found.numel()]
    gradients = torch.autograd.grad(sum(losses), wanted, allow_unused=True) if wanted and losses else ()
    return result, gradients, leaves


def _tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)] or tensors(result)


def differs(expected: Any, actual: Any, where: str, exact: bool) -> str:
    """Operators have flat results: names of places, as `corpus.runner` gives them, are not needed here."""
    pairs, structure = pytree.tree_flatten(expected)
    others, other_structure = pytree.tree_flatten(actual)
    if structure != other_structure:
        return f"{where}: {other_structure} instead of {structure}"
    found = (_leaf_differs(*pair, exact) for pair in zip(pairs, others, strict=True))
    return next((f"{where}: {one}" for one in found if one), "")


def _leaf_differs(expected: Any, actual: Any, exact: bool) -> str:
    """Strides as well: what a later ``view`` may do hangs on them."""
    if type(expected) is not type(actual):
        return f"a {type(actual).__name__} instead of a {type(expected).__name__}"
    if not isinstance(expected, torch.Tensor):
        return "" if expected == actual or expected != expected else f"{actual} instead of {expected}"
    for name in ("dtype", "shape", "requires_grad", "layout"):
        if getattr(expected, name) != getattr(actual, name):
            return f"{name} {getattr(actual, name)} instead of {getattr(expected, name)}"
    if expected.layout is torch.strided and expected.stride() != actual.stride():
        return f"strides {actual.stride()} instead of {expected.stride()} at {tuple(expected.shape)}"
    try:
        near = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-4, "atol": 1e-4}
        torch.testing.assert_close(actual, expected, equal_nan=True, **near)  # type: ignore[arg-type]
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def samples(wanted: list[str], limit: int) -> Iterator[Stretched]:
    """Operators first, then modules, each as often as torch has samples and the limit allows."""
    for op in operators():
        if not wanted or any(part in op.name for part in wanted):
            yield from of_operator(op, limit)
    for sample in of_modules():
        if not wanted or any(part in sample.name for part in wanted):
            yield sample


def main() -> int:
    parser = argparse.ArgumentParser(prog="corpus.sizes", description=__doc__)
    parser.add_argument("names", nargs="*", help="only operators whose names contain one of these")
    parser.add_argument("--compiled", action="store_true", help="the default backend instead of the graphs as they are")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--limit", type=int, default=3, help="samples of an operator")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    total = found = 0
    for sample in samples(chosen.names, chosen.limit):
        total += 1
        log = capture.Log()
        backend = compile_api.backend_function() if chosen.compiled else "eager"
        optimize = capture.optimize(backend, log=log)
        try:
            seen = run(sample, optimize, log, chosen.gradients, not chosen.compiled)
        except Exception:  # noqa: BLE001 - one sample must not hide the others
            found += 1
            print(sample, "FAILED", traceback.format_exc(limit=-3), sep="\n    ", flush=True)
            continue
        if not (seen.is_right and seen.serves_all) and sample.name not in RANDOM_MEMORY:
            found += 1
            print(seen, flush=True)
    print(f"{total} samples over {len(LENGTHS)} lengths, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
