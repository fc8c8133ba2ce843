"""Results that keep all of the memory of their first operand, which is a window on a larger one.

The kernels of ``select_scatter`` and its kin copy the operand's whole storage and write into the copy: the result
begins where the operand begins, lies as it lies, and a view by strides finds there what is beside the operand.  A
graph's values are dense or have gaps that nobody reads, so that memory is a value here, and the result a view of it.
Where the operand is all of its memory, the result is the operator's own.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from aotgrad.errors import FailsOnFakes
from aotgrad.recording.memory_order import is_window
from aotgrad.tensors import functional


def in_copied_memory(func: Callable[..., torch.Tensor], *args: object, **kwargs: object) -> object:
    """`func` of its operands, placed in a copy of the first one's memory if that is more than the operand."""
    operand, *rest = args or (kwargs.get("input", kwargs.get("self")),)
    if not isinstance(operand, torch.Tensor) or not functional.is_functional(operand) or kwargs.get("out") is not None:
        return NotImplemented
    held = functional.current(operand)
    if not is_window(held):
        return NotImplemented
    value = func(*args, **kwargs)
    size, left = divmod(held.untyped_storage().nbytes(), held.element_size())
    if left:
        raise FailsOnFakes("memory that no number of elements fills is copied", "run it eagerly: the error is its own")
    begin = held.storage_offset()
    with torch.no_grad():  # the value's own history is the one that eager records
        memory = operand.detach().as_strided((size,), (1,), 0).clone()
        if func in _BY_STRIDES:  # what is written may lie beside the operand
            named = {name: given for name, given in kwargs.items() if name not in ("input", "self")}
            write: Callable[..., None] = partial(_write, memory, begin)
            write(*rest, **named)
    return memory.as_strided(operand.shape, operand.stride(), begin).copy_(value)


_BY_STRIDES = (
    *(torch.as_strided_scatter, torch.Tensor.as_strided_scatter),
    *(torch.ops.aten.as_strided_scatter, torch.ops.aten.as_strided_scatter.default),
)


def _write(
    memory: torch.Tensor,
    begin: int,
    src: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> None:
    memory.as_strided(size, stride, begin if storage_offset is None else storage_offset).copy_(src)
