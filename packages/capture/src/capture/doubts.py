"""Where the library may refuse what its stand-ins let pass: CPython runs such an operation, and knows.

Stand-ins check shapes and types, though not all that kernels check.  A doubt need not be right: whatever it is about
is run as in eager.  Must not know how operations are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

Doubt = Callable[..., bool]
_DOUBTS: dict[Any, Doubt] = {}
aten = torch.ops.aten


def _doubt(*packets: Any) -> Callable[[Doubt], Doubt]:
    def register(doubt: Doubt) -> Doubt:
        for packet in packets:
            _DOUBTS[packet] = doubt
        return doubt

    return register


def doubtful(func: Any, args: Any, kwargs: Any, written: Sequence[torch.Tensor]) -> bool:
    """Whether eager may refuse this; ``written`` are the operands that it writes to."""
    doubt = _DOUBTS.get(func.overloadpacket)
    if doubt is not None and doubt(*args, **kwargs):
        return True
    return bool(written) and _overlaps(func, (args, kwargs), written)


# -- memory ------------------------------------------------------------------------------------------------------


def _overlaps(func: Any, operands: Any, written: Sequence[torch.Tensor]) -> bool:
    """What is written lies over itself, or in part over something that is read."""
    tensors = [leaf for leaf in pytree.tree_leaves(operands) if isinstance(leaf, torch.Tensor)]
    tensors = [tensor for tensor in tensors if tensor.layout is torch.strided]
    for target in written:
        if not _is_known(target):
            continue
        if any(stride == 0 and size > 1 for size, stride in zip(target.shape, target.stride(), strict=True)):
            return True
        memory = target.untyped_storage()._cdata
        for other in tensors:
            if other is not target and other.untyped_storage()._cdata == memory and _is_known(other):
                if _partly(target, other) or (torch.Tag.pointwise not in func.tags and _same_place(target, other)):
                    return True
    return False


def _is_known(tensor: torch.Tensor) -> bool:
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return all(isinstance(number, int) for number in numbers)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    first = tensor.storage_offset() * tensor.element_size()
    return first, first + tensor.numel() * tensor.element_size()


def _partly(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not (_is_dense(one) and _is_dense(other)):
        return False
    (first, end), (begin, stop) = _extent(one), _extent(other)
    if (first, end) == (begin, stop):
        return one.stride() != other.stride()
    return first < stop and begin < end


def _same_place(one: torch.Tensor, other: torch.Tensor) -> bool:
    return _is_dense(one) and _is_dense(other) and _extent(one) == _extent(other)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether it fills its memory without gaps."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


@_doubt(aten.as_strided, aten.as_strided_, aten.as_strided_copy, aten.as_strided_scatter)
def _beyond_memory(x: torch.Tensor, *given: Any, **named: Any) -> bool:
    lists = [item for item in (*given, *named.values()) if isinstance(item, (list, tuple))]
    numbers = [item for item in (*given, *named.values()) if isinstance(item, (int, torch.SymInt))]
    if len(lists) < 2:
        return True
    size, stride = lists[-2:]
    offset = numbers[-1] if numbers else x.storage_offset()
    everything = (*size, *stride, offset, x.untyped_storage().nbytes())
    if not all(isinstance(number, int) for number in everything) or 0 in size:
        return False
    if len(size) != len(stride):
        return True
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return bool(offset < 0 or (last + 1) * x.element_size() > x.untyped_storage().nbytes())


# -- values ------------------------------------------------------------------------------------------------------


def _tensors(*operands: Any) -> Iterable[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(operands) if isinstance(leaf, torch.Tensor))
