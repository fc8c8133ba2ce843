"""Inputs that autograd saved as the call left them: writing to one before backward is refused, as in eager.

A graph saves what its own backward reads, of an input that it changed a value of its own.  So it is noted which inputs
autograd saved while the program was traced, their versions when all is written back, and backward compares these.
Must not know: graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from aotgrad.state import STATE
from aotgrad.tensors.kept import keep, saved_beside
from aotgrad.tensors.symbols import size_hint
from aotgrad.torch_versions import unsafe_set_version_counter, version_of

_APART = 16
"""The writes to one input that a program may make, as a power of two."""


@dataclass(frozen=True, slots=True, order=True)
class SavedInput:
    """The number of an input, and the shape of what was saved of it."""

    input: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """Groups of inputs that the same results need, and for each result its group."""

    groups: tuple[tuple[SavedInput, ...], ...] = ()
    of_results: tuple[int | None, ...] = ()


def grouped(saved: Sequence[frozenset[SavedInput]]) -> Noted:
    """The groups of inputs that were saved behind each result."""
    each = [tuple(sorted(inputs)) for inputs in saved]
    groups = sorted(set(each) - {()})
    return Noted(tuple(groups), tuple(groups.index(inputs) if inputs else None for inputs in each))


@contextmanager
def numbered_versions(inputs: Mapping[int, torch.Tensor]) -> Iterator[None]:
    """Sets the version of each input to a range of its own meanwhile, so that the version of a saved tensor tells which
    input it views."""
    values = {number: value for number, value in inputs.items() if not value.is_inference()}
    before = [int(version_of(value)) for value in values.values()]
    unsafe_set_version_counter(list(values.values()), [number + 1 << _APART for number in values])
    try:
        yield
    finally:
        unsafe_set_version_counter(list(values.values()), before)


def inputs_saved(node: object) -> frozenset[SavedInput]:
    """The inputs that a node of autograd saved in their present state."""
    values = [value for value in _saved(node) if not value.is_inference()]
    found = ((int(version_of(value)) >> _APART, value) for value in values)
    return frozenset(SavedInput(number - 1, tuple(map(size_hint, value.shape))) for number, value in found if number)


def _saved(node: object) -> Iterable[torch.Tensor]:
    if isinstance(node, BackwardCFunction):  # its function may have hooks of the program's own on them
        return ()
    found: list[Any] = []
    kind: Any = type(node)
    if (holder := saved_beside(node)) is not None:
        with suppress(RuntimeError):  # as below
            if all(each.unpack_hook is None for each in holder._raw_saved_tensors):
                found += holder.saved_tensors
    for name in saved_names(kind):
        try:
            raw = getattr(node, f"_raw{name}")
            raws = raw if isinstance(raw, (list, tuple)) else (raw,)
            if all(each.unpack_hook is None for each in raws):
                value = getattr(node, name)
                found += value if isinstance(value, (list, tuple)) else [value]
        except (AttributeError, RuntimeError):  # freed or written to since: backward, which is traced next, is told
            continue
    return [value for value in found if isinstance(value, torch.Tensor)]


def saved_names(kind: type) -> tuple[str, ...]:
    """The attributes in which autograd nodes of a class save tensors."""
    known = STATE.saved_names.get(kind)
    if known is None:
        known = tuple(name.removeprefix("_raw") for name in dir(kind) if name.startswith("_raw_saved_"))
        STATE.saved_names[kind] = known
    return known


def note_saved(results: Sequence[torch.Tensor], group: int, saved: Sequence[torch.Tensor]) -> None:
    """Saves inputs as they are once the call is over, on the nodes behind its results, as autograd keeps saved
    tensors."""
    plain = [each for each in saved if not each.is_inference()]
    holder = keep(plain)
    for result in results:
        node: Any = result.grad_fn
        if node is not None:
            node.noted = {**(getattr(node, "noted", None) or {}), group: holder}


def refuse_written(ctx: object, group: int) -> None:
    """Raises autograd's error where an input of the group was written to since."""
    noted = getattr(ctx, "noted", None)
    if noted and group in noted:
        noted[group].grad_fn.saved_tensors  # noqa: B018 - asking compares their versions
