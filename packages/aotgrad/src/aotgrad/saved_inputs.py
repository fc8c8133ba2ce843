"""Inputs that autograd saved as the call left them: whoever writes to one before backward is refused, as in eager.

A graph saves what its own backward reads, of an input that it changed a value of its own.  So it is noted which inputs
autograd saved while the program was traced, their versions when all is written back, and backward compares these.
Must not know: graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.autograd.function import BackwardCFunction

from aotgrad.symbols import size_hint
from aotgrad.torch_versions import unsafe_set_version_counter, version_of

_APART = 16
"""Writes to one input that a program may make, as a power of two."""


class SavedInput(NamedTuple):
    """The number of an input, and the shape of what was saved of it."""

    input: int
    shape: tuple[int, ...]


def number_versions(inputs: Mapping[int, torch.Tensor]) -> None:
    """From here on the version of a tensor tells which input it looks at."""
    values = {number: value for number, value in inputs.items() if not value.is_inference()}
    unsafe_set_version_counter(list(values.values()), [number + 1 << _APART for number in values])


def inputs_saved(node: Any) -> frozenset[SavedInput]:
    """The inputs that a node of autograd saved as they are now."""
    values = [value for value in _saved(node) if not value.is_inference()]
    found = ((int(version_of(value)) >> _APART, value) for value in values)
    return frozenset(SavedInput(number - 1, tuple(map(size_hint, value.shape))) for number, value in found if number)


def _saved(node: Any) -> Iterable[torch.Tensor]:
    if isinstance(node, BackwardCFunction):  # its function may have hooks of the program's own on them
        return ()
    found: list[Any] = []
    kind: Any = type(node)
    for name in _saved_names(kind):
        try:
            raw = getattr(node, f"_raw{name}")
            raws = raw if isinstance(raw, (list, tuple)) else (raw,)
            if all(each.unpack_hook is None for each in raws):
                value = getattr(node, name)
                found += value if isinstance(value, (list, tuple)) else [value]
        except (AttributeError, RuntimeError):  # freed or written to since: backward, which is traced next, is told
            continue
    return [value for value in found if isinstance(value, torch.Tensor)]


@cache
def _saved_names(kind: type) -> tuple[str, ...]:
    return tuple(name.removeprefix("_raw") for name in dir(kind) if name.startswith("_raw_saved_"))


def note_saved(results: Sequence[torch.Tensor], saved: Mapping[int, torch.Tensor]) -> None:
    """The versions of inputs when the call is over, kept by the nodes behind its results."""
    noted = {number: (value.detach(), version_of(value)) for number, value in saved.items() if not value.is_inference()}
    for result in results:
        if result.grad_fn is not None:
            result.grad_fn.noted = noted


def refuse_written(ctx: Any, saved: Iterable[SavedInput]) -> None:
    """Raises what autograd does where one of these inputs was written to since."""
    noted = getattr(ctx, "noted", None) or {}
    for number, shape in saved:
        value, version = noted.get(number, (None, 0))
        if value is not None and version_of(value) != version:
            _refuse(value, version, shape)


def _refuse(value: torch.Tensor, version: int, shape: tuple[int, ...]) -> None:
    """In autograd's own words."""
    like = value.new_empty(shape)
    unsafe_set_version_counter([like], [version])
    with torch.enable_grad():
        saving = _Saving.apply(torch.empty(0, requires_grad=True), like)
    unsafe_set_version_counter([like], [version_of(value)])
    assert not saving.grad_fn.saved_tensors


class _Saving(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(value)
        return torch.empty(0)
