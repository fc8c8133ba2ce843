"""Results and views that a program makes in another inference mode than its caller's: they are of that mode to the
caller, too.

Where all results are of another inference mode the graph runs in it; otherwise those get a new tensor over the memory.
Must not know: graphs, how the inner function was compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from aotgrad.torch_versions import unsafe_set_version_counter


@contextmanager
def with_gradients() -> Iterator[None]:
    """The mode of programs by default, whatever the caller's."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@contextmanager
def without_gradients() -> Iterator[None]:
    """Gradients off, and inference mode as well."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def running_elsewhere(inner: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    """`inner`, run in the inference mode that the caller is not in."""

    def run(*inputs: object) -> Sequence[Any]:
        with torch.inference_mode(not torch.is_inference_mode_enabled()):
            return inner(*inputs)

    return run


def made_elsewhere(inner: Callable[..., Sequence[Any]], places: Sequence[int]) -> Callable[..., Sequence[Any]]:
    """`inner`, of whose values those at `places` were made in the inference mode that the caller is not in."""

    def run(*inputs: object) -> Sequence[Any]:
        values = [*inner(*inputs)]
        with torch.inference_mode(not torch.is_inference_mode_enabled()):
            for place in places:
                values[place] = _anew(values[place])
        return values

    return run


def _anew(value: torch.Tensor) -> torch.Tensor:
    """A tensor of the current mode with no writes counted, over the same memory where the memory holds its elements as
    they are."""
    if value.is_conj() or value.is_neg():
        made = value.clone()
    else:
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        made.set_(value.untyped_storage(), value.storage_offset(), value.size(), value.stride())
    if not made.is_inference():
        unsafe_set_version_counter([made], [0])
    return made
