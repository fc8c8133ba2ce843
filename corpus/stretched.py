"""Torch's own samples of its operators and modules, each at several sizes.

A sample is stretched: every dimension that has one chosen length gets another, filled by what the sample has there over
again, so positions stay positions and probabilities stay probabilities.  Where that makes no sense to the operator,
eager says so and the sample is left out.  Numbers of the call that equal the length are stretched too, or are not: both
are tried.  Matrices that must have an inverse are drawn anew, by torch's own functions, with another number for the
side.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import capture

LENGTHS = (7, 9, 12, 5, 30, 11)
Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Stretched:
    """One function and what it is called with, a call for each length."""

    name: str
    how: str
    function: Callable[..., Any]
    calls: Sequence[Call]

    def __str__(self) -> str:
        return f"{self.name} ({self.how})"


def samples_of_torch() -> types.ModuleType:
    """torch's module of samples, made to be imported and to run outside of torch's own tests."""
    # Torch's module of samples asks for it, for tests of its own.
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)  # type: ignore[assignment]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = importlib.import_module("torch.testing._internal.common_methods_invocations")
    # The samples of random operators seed the generator within the program, which is no operator's business.
    found.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)  # type: ignore[attr-defined]
    # For each sample these look for torch's own test that asks, by reading the sources of all callers: there is none.
    for part in ("common_utils", "opinfo.core"):
        importlib.import_module(f"torch.testing._internal.{part}").extract_test_fn = lambda: None  # type: ignore[attr-defined]
    return found


def name_of(op: Any) -> str:
    """The name with its variant: ``norm.fro`` and ``norm.nuc`` have samples of their own."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


EXCLUDED = {"nn.functional.ctc_loss": "where its lengths do not fit its data, eager reads and writes beyond it"}


def operators() -> list[Any]:
    """torch's operators that have samples, but for those excluded."""
    found = [op for op in samples_of_torch().op_db if op.dtypes and name_of(op) not in EXCLUDED]
    return [op for op in found if not name_of(op).startswith("jiterator")]


def of_operator(op: Any, limit: int) -> Iterator[Stretched]:
    """Samples of an operator, at most ``limit`` of them, each in every way of stretching that eager takes."""
    dtype = next((dtype for dtype in (torch.float32, torch.complex64) if dtype in op.dtypes), None) or min(
        op.dtypes, key=str
    )
    called = _Called(op.op)
    drawn = [_drawn(op, dtype, length) for length in LENGTHS]
    for number, samples in _spread(list(zip(*drawn, strict=False)), limit):
        # Samples whose sizes do not depend on the side are the same at each length.
        if _layouts(samples[0]) != _layouts(samples[1]) and _eager_takes(called, samples):
            yield Stretched(name_of(op), f"drawn, {number}", called, samples)
    for number, sample in _spread(_drawn(op, dtype, None), limit):
        yield from _stretched(name_of(op), str(number), called, sample)


def of_modules() -> Iterator[Stretched]:
    """torch's modules with its samples for them."""
    modules = importlib.import_module("torch.testing._internal.common_modules").module_db
    for info in modules:
        torch.manual_seed(0)
        for number, given in enumerate(info.module_inputs_func(info, "cpu", torch.float32, False, True)):
            build, call = given.constructor_input, given.forward_input
            module = info.module_cls(*build.args, **build.kwargs)
            yield from _stretched(info.name, str(number), module, (tuple(call.args), dict(call.kwargs)))


class _Called:
    """Each function is captured as one of its own."""

    def __new__(cls, function: Callable[..., Any]) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return types.FunctionType(called.__code__.replace(), called.__globals__, None, None, called.__closure__)


def _spread(samples: Sequence[Any], limit: int) -> list[tuple[int, Any]]:
    """Samples that stand together are alike: some from the whole list say more than the first ones."""
    step = max(1, len(samples) // limit)
    return list(enumerate(samples))[::step][:limit]


def _drawn(op: Any, dtype: torch.dtype, side: int | None) -> list[Call]:
    """The samples that torch's own function draws with this number for a side."""
    torch.manual_seed(0)
    with _side(side), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples = list(itertools.islice(op.sample_inputs("cpu", dtype), 200))
        except Exception:  # noqa: BLE001 - other lengths of a sample are fixed, and do not go with this one
            return []
    return [((sample.input, *sample.args), dict(sample.kwargs)) for sample in samples]


@contextlib.contextmanager
def _side(side: int | None) -> Iterator[None]:
    """Sets the lengths of sides that torch's functions for samples use."""
    prefix = "torch.testing._internal."
    modules = [module for name, module in sys.modules.items() if name.startswith(prefix) and hasattr(module, "S")]
    held = [(module, module.S) for module in modules]
    try:
        for module in modules if side else ():
            module.S = side  # type: ignore[attr-defined]
        yield
    finally:
        for module, before in held:
            module.S = before  # type: ignore[attr-defined]


def _stretched(name: str, number: str, function: Callable[..., Any], sample: Call) -> Iterator[Stretched]:
    """A sample in every way of stretching that eager takes, each layout once."""
    found: list[Any] = []
    for length in _lengths(sample):
        for numbers_too in (True, False):
            calls = [with_length(sample, length, other, numbers_too=numbers_too) for other in LENGTHS]
            layouts = [_layouts(call) for call in calls]
            if layouts not in found and _eager_takes(function, calls):
                found.append(layouts)
                how = f"{number}: {length} stretched{', numbers too' if numbers_too else ''}"
                yield Stretched(name, how, function, calls)


def _lengths(sample: Call) -> list[int]:
    """The lengths that a sample has: sizes of its tensors, and numbers of the call."""
    leaves = pytree.tree_leaves(sample)
    sizes = [size for leaf in leaves if isinstance(leaf, torch.Tensor) for size in leaf.shape if size > 1]
    numbers = [leaf for leaf in leaves if type(leaf) is int and leaf > 2]
    return list(dict.fromkeys([*sizes, *numbers]))


def with_length(sample: Call, length: int, other: int, *, numbers_too: bool) -> Call:
    """A sample with one of its lengths replaced by another."""

    def stretch(leaf: Any) -> Any:
        if type(leaf) is int and numbers_too and leaf == length:
            return other
        if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or length not in leaf.shape:
            return leaf
        places = torch.arange(length - other, length) % length  # padding stays at the end
        made = leaf.detach()
        for dim in (dim for dim, size in enumerate(leaf.shape) if size == length):
            made = made.index_select(dim, places)
        return made.requires_grad_(leaf.requires_grad)

    return pytree.tree_map(stretch, sample)  # type: ignore[no-any-return]


def _layouts(call: Call) -> list[Any]:
    leaves = pytree.tree_leaves(call)
    return [(leaf.shape, leaf.stride()) if _is_plain(leaf) else leaf for leaf in leaves if not _is_odd(leaf)]


def _is_plain(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided


def _is_odd(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and not _is_plain(leaf)


def _eager_takes(function: Callable[..., Any], calls: Sequence[Call]) -> bool:
    """True if eager runs all the calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for call in calls:
                args, kwargs = copied(call)
                function(*args, **kwargs)
        except Exception:  # noqa: BLE001 - whatever it raises, this is no sample
            return False
    return True


def copied(call: Call, requires_grad: bool = False) -> Call:
    """A copy of the arguments, as leaves that require gradients where that is wanted."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        made = leaf.detach().clone()
        return made.requires_grad_(requires_grad and (leaf.is_floating_point() or leaf.is_complex()))

    return pytree.tree_map(copy, call)  # type: ignore[no-any-return]


def counted(log: capture.Log) -> tuple[int, int]:
    """The graphs, and the breaks and frames left to CPython."""
    kinds = [type(record) for record in log.records()]
    return kinds.count(capture.GraphRecord), kinds.count(capture.BreakRecord) + kinds.count(capture.FallbackRecord)


def reasons(log: capture.Log) -> tuple[str, ...]:
    """The reasons for breaks and new graphs, each once."""
    return tuple(dict.fromkeys(filter(None, map(_reason, log.records()))))


def _reason(record: Any) -> str:
    if isinstance(record, (capture.BreakRecord, capture.FallbackRecord)):
        return f"break: {record.reason.explanation} ({record.location})"
    return f"anew: {record.failed}" if isinstance(record, capture.RecompileRecord) else ""
