"""Writes to memory that the same operation reads or writes at another place, refused before they are recorded.

Functionalization takes what is read as it was before; eager's kernels read it while they write, element after element,
or refuse.
Must not know: recording, gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from aotgrad.errors import Unsupported
from aotgrad.pre_autograd.outs import flat, is_pointwise, outs_of
from aotgrad.tensors import functional
from aotgrad.tensors.dense import may_overlap
from aotgrad.torch_versions import DisableTorchDispatch, pytree


def refuse_overlaps(func: object, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Refuses a call of `func` in which reads and writes, or several writes, meet in memory; a write through an
    expanded tensor would be taken for a sum over its copies."""
    name = getattr(func, "__name__", "").split(".")[0]
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place or name == "__setitem__":
        _refuse_lists(name, [arg for arg in args if isinstance(arg, (list, tuple))])
        if args and _is_dense(args[0]):
            _refuse_copies(name, args[0])
    if in_place and args and _is_dense(args[0]):
        _refuse_reading(name, args[0], [*args[1:], kwargs])
    if name == "__setitem__":
        _refuse_setting(*args)
    # ``out`` is written as the first argument of an operator in place is.
    outs = outs_of(func, kwargs)
    written = [out for out in flat(outs) if _is_dense(out)]
    rest = {key: value for key, value in kwargs.items() if key not in outs}
    for place, out in enumerate(written):
        _refuse_copies(name, out)
        _refuse_reading(name, out, [*args[_is_added_to(name, args, out) :], rest])
        if any(_share(out, other) for other in written[:place]):
            raise Unsupported(f"{name} writes several results to one memory", "write to each of them")


def refuse_shared_operands(name: str, written: Sequence[object], read: Sequence[object]) -> None:
    """Refuses an operator of the program's own that writes to memory that it is given twice: in what order it writes
    and reads, nobody knows, and its functional twin would write to copies that lie apart."""
    tensors = [tensor for tensor in written if _is_dense(tensor)]
    others = [tensor for tensor in pytree.tree_leaves(read) if _is_dense(tensor)]
    for place, tensor in enumerate(tensors):
        _refuse_copies(name, tensor)
        if any(_share(tensor, other) for other in (*tensors[:place], *others)):
            raise Unsupported(f"{name} writes to memory that another operand shows", "give it a copy of one of them")


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors show a place in one memory."""
    both = one.numel() and other.numel() and functional.memory_of(one) == functional.memory_of(other)
    return bool(both) and _meet(one, other)


def _is_added_to(name: str, args: Sequence[object], out: torch.Tensor) -> bool:
    """True if a product is added to the old contents of ``out``."""
    return name in _ADD_PRODUCTS and bool(args) and _is_dense(args[0]) and _place(args[0]) == _place(out)


_ADD_PRODUCTS = ("addmm", "addmv", "addr", "addbmm", "baddbmm")


def _is_dense(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _refuse_copies(name: str, written: torch.Tensor) -> None:
    if may_overlap(written.size(), written.stride()):
        raise Unsupported(f"{name} writes to memory that an expanded tensor shows several times", "clone it first")


def _refuse_reading(name: str, written: torch.Tensor, read: Sequence[object]) -> None:
    """Refuses reads of written memory, but for a pointwise operator's at the very same place."""
    memory = None
    for tensor in pytree.tree_leaves(read):
        if not _is_dense(tensor) or not tensor.numel() or (tensor is written and is_pointwise(name)):
            continue
        memory = functional.memory_of(written) if memory is None else memory
        if functional.memory_of(tensor) != memory or not _meet(written, tensor):
            continue
        if not (is_pointwise(name) and _place(written) == _place(tensor)):
            raise Unsupported(f"{name} reads memory that it writes", "give it a copy of what it reads")


def _refuse_setting(tensor: Any, index: Any, value: Any) -> None:
    """Refuses an assignment whose value lies where it is assigned to, but for the very same place, which ``x[0] += 1``
    ends in."""
    if not (_is_dense(tensor) and _is_dense(value)) or not value.numel():
        return
    if functional.memory_of(tensor) == functional.memory_of(value):
        written = _chosen(tensor, index)
        if written is None or (_meet(written, value) and _place(written) != _place(value)):
            raise Unsupported("what is assigned lies where it is assigned to", "give it a copy of what it reads")


def _chosen(tensor: torch.Tensor, index: object) -> torch.Tensor | None:
    """The part of a tensor that an index of slices and numbers selects, as a layout without data."""
    parts = index if isinstance(index, tuple) else (index,)
    layout = (*tensor.size(), *tensor.stride(), tensor.storage_offset())
    plain = all(part is None or part is ... or type(part) in (int, slice) for part in parts)
    if not plain or not all(isinstance(number, int) for number in layout):
        return None
    with DisableTorchDispatch(), torch.no_grad():
        whole = torch.empty((), device="meta").as_strided(*_place(tensor))
        return whole[index]


def _refuse_lists(name: str, lists: Sequence[Sequence[Any]]) -> None:
    """Refuses writes to a list of tensors that share memory: written one after another, they see earlier writes, while
    functionalization takes all as they were.  Tensors at the same position of several lists are read together."""
    seen: dict[int, list[tuple[int, torch.Tensor]]] = {}
    for tensors in lists:
        for place, tensor in enumerate(tensors):
            if not _is_dense(tensor) or not tensor.numel():
                continue
            others = seen.setdefault(functional.memory_of(tensor), [])
            if any(place != other and _meet(tensor, neighbour) for other, neighbour in others):
                raise Unsupported(f"{name} writes to a list of tensors that share memory", "write to each of them")
            others.append((place, tensor))


def _meet(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if some element of both may lie at one place in memory; assumed where sizes vary or it takes too long to
    find out."""
    numbers = [number for tensor in (one, other) for part in _place(tensor)[:2] for number in part]
    apart = other.storage_offset() - one.storage_offset()
    if not all(isinstance(number, int) for number in (*numbers, apart)):
        return True
    ranges: dict[
        int, tuple[int, int]
    ] = {}  # by stride, how many steps lead from an element of the other to one of this
    for tensor, sign in ((one, 1), (other, -1)):
        for size, stride in zip(tensor.size(), tensor.stride(), strict=True):
            low, high = ranges.get(stride, (0, 0))
            ranges[stride] = (low, high + size - 1) if sign > 0 else (low - size + 1, high)
    ordered = [(stride, *ranges[stride]) for stride in sorted(ranges, reverse=True) if stride]
    return _is_reached(apart, ordered, itertools.count())


def _is_reached(distance: int, ranges: Sequence[tuple[int, int, int]], asked: Iterator[int]) -> bool:
    """True if ``distance`` is a sum of steps, as many of each length as its range allows."""
    if not ranges:
        return distance == 0
    (stride, low, high), rest = ranges[0], ranges[1:]
    least, most = (sum(step * ends[place] for step, *ends in rest) for place in (0, 1))
    first, last = max(low, -((most - distance) // stride)), min(high, (distance - least) // stride)
    for count in range(first, last + 1):
        if next(asked) > _PATIENCE or _is_reached(distance - count * stride, rest, asked):
            return True
    return False


_PATIENCE = 2000


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.size(), tensor.stride(), tensor.storage_offset()
