"""Writes through views that functionalization would lose or misplace, refused while they are recorded.

It writes a changed view back into the new value of its base.  That is no inverse for windows that overlap or leave
something out (`unfold`), and a view by strides reaches where the base's own elements do not lie.
Must not know: roles, gradients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch

from aotgrad.errors import Unsupported
from aotgrad.tensors.dense import may_overlap
from aotgrad.torch_versions import OpOverload, current_autograd_node

aten = torch.ops.aten

BY_STRIDES = frozenset({aten.as_strided.default, aten.as_strided_scatter.default})
"""Operators whose positions count in the whole memory of a tensor."""
WINDOWS = frozenset({aten.unfold.default, aten.unfold_copy.default})


def refuse_lost_writes(func: OpOverload, args: Sequence[Any], taken: Collection[OpOverload]) -> None:
    """Refuses operators through which a write would be lost.

    `func` is met below functionalization; calls by autograd's own formulas are exempt, and so are programs that took no
    such view before (``istft`` adds its windows up with the same operator).
    """
    if func is aten.unfold_backward.default and not WINDOWS.isdisjoint(taken) and current_autograd_node() is None:
        raise Unsupported("a tensor is written through `unfold`", "write through slices")
    if func is aten.as_strided_scatter.default and may_overlap(args[2], args[3]):
        raise Unsupported("a tensor is written through a view that shows memory several times", "clone it first")


def refuse_windows(changed: Iterable[torch.Tensor]) -> None:
    """Refuses, where views by strides were taken, a changed input that is not all of its memory: the graph neither
    knows the rest nor can write it."""
    for value in changed:
        if not _is_whole(value):
            raise Unsupported(
                "a view by strides is taken where an input that is a window on a larger memory is changed",
                "pass the whole tensor, or take the view by slices",
            )


def refuse_overlapping(changed: Iterable[torch.Tensor]) -> None:
    """Refuses a changed input that shows memory several times: eager changes that as often, or refuses."""
    for value in changed:
        if may_overlap(value.shape, value.stride()):
            raise Unsupported("an input that shows memory several times is changed", "clone it first")


def _is_whole(value: torch.Tensor) -> bool:
    """True if the tensor is all of its memory, in order."""
    if not value.is_contiguous() or not isinstance(value.storage_offset(), int) or value.storage_offset():
        return False
    held = value.untyped_storage().nbytes()
    return bool(held == value.numel() * value.element_size())
