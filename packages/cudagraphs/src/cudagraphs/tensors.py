"""Tensors as a driver over torch sees them, on whatever device.

Must not know pools or graphs; ``cuda`` and ``emulated`` add those.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from .handout import Handout
from .inputs import dense_shape
from .storage import PLAIN, Block, Held, View
from .torch_versions import expired, foreach_copy_, version_of

_TENSORS = (Tensor, torch.nn.Parameter)


class WeakStorage(StorageWeakRef):
    """A weak look at a storage.  Made and asked at every replay, so it adds nothing to torch's own."""

    __slots__ = ()

    def alive(self) -> bool:
        return not expired(self.cdata)


class TorchTensors:
    """The part of a driver that looks at tensors and copies them."""

    def __init__(self, device: torch.device) -> None:
        self.device, self._kind = device, device.type

    def is_tensor(self, value: object) -> bool:
        return _is_memory(value)

    def on_device(self, tensor: Tensor) -> bool:
        return tensor.device == self.device

    def on_cpu(self, tensor: Tensor) -> bool:
        return tensor.device.type == "cpu"

    def readable(self, tensor: Tensor) -> bool:
        return tensor.device == self.device or (tensor.device.type == "cpu" and tensor.is_pinned())

    def requires_grad(self, tensor: Tensor) -> bool:
        return tensor.requires_grad and torch.is_grad_enabled()

    def signature(self, values: Sequence[object]) -> Hashable:
        # The modes that change what operators do, beyond what the values say.
        grad, kind = torch.is_grad_enabled(), self._kind
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        modes = (grad, autocast, torch.is_inference_mode_enabled())
        return (*modes, *[_signature(value, grad, self.device) for value in values]) if values else modes

    def view(self, tensor: Tensor) -> View:
        return View(tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())

    def block(self, tensor: Tensor) -> Block:
        storage = tensor.untyped_storage()
        return Block(storage.data_ptr(), storage.nbytes())

    def address(self, tensor: Tensor) -> int:
        return tensor.data_ptr()

    def version(self, tensor: Tensor) -> int:
        return 0 if tensor.is_inference() else version_of(tensor)  # an inference tensor has none

    def note_change(self, tensors: Sequence[Tensor]) -> None:
        torch.autograd.graph.increment_version([tensor for tensor in tensors if not tensor.is_inference()])

    def hold_weakly(self, tensor: Tensor) -> Held:
        return WeakStorage(tensor.untyped_storage())

    def same_addresses(self, which: Sequence[int], addresses: Sequence[int]) -> Callable[[list[Any]], bool]:
        expected = list(addresses)
        return lambda values: [values[index].data_ptr() for index in which] == expected

    def copy(self, destinations: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
        with torch.no_grad():
            if len(destinations) == 1:
                dense(destinations[0]).copy_(dense(sources[0]), non_blocking=True)
            else:
                foreach_copy_([dense(t) for t in destinations], [dense(t) for t in sources], non_blocking=True)

    def fill(self, block: Block, byte: int) -> None:
        (memory,) = self.lend(block, [View(torch.uint8, (block.nbytes,), (1,), 0)])
        memory.fill_(byte)

    def handout(self, blocks: Sequence[tuple[Block, Sequence[View]]]) -> Handout:
        return Handout(self.lend, blocks)

    def lend(self, block: Block, views: Sequence[View]) -> list[Tensor]:
        raise NotImplementedError

    def view_of(self, tensor: Tensor, view: View) -> Tensor:
        return tensor.as_strided(view.shape, view.strides, view.offset)


def _is_memory(value: Any) -> bool:
    """True for plain tensors: a subclass may have a mind of its own, and a pending conjugation or negation is not in
    the memory."""
    return type(value) in _TENSORS and value.layout is torch.strided and not (value.is_conj() or value.is_neg())


def _signature(value: Any, grad: bool, device: torch.device) -> Hashable:
    if not _is_memory(value):
        return (type(value), _told_apart(value) if isinstance(value, PLAIN) else None)
    if value.device.type == "cpu" and value.dim() == 0 and value.device != device:
        return (
            value.dtype,
            _told_apart(value.item()),
            grad and value.requires_grad,
        )  # a number: kernels take it as an argument
    return (value.shape, value.stride(), value.dtype, value.device, grad and value.requires_grad)


def _told_apart(value: object) -> Hashable:
    """A plain value as part of a key: 0.0 equals -0.0, and NaN not even itself."""
    return repr(value) if isinstance(value, (float, complex)) else value


def copier(destinations: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], Any]:
    """A function that copies sources to the destinations, those of one dtype in one launch; made once, for every
    replay."""
    groups: dict[torch.dtype, list[int]] = {}
    for index, tensor in enumerate(destinations):
        groups.setdefault(tensor.dtype, []).append(index)
    copiers = [_copier_of(destinations, which) for which in groups.values()]
    if len(copiers) == 1:
        return copiers[0]

    def copy_all(sources: Sequence[Tensor]) -> None:
        for copy in copiers:
            copy(sources)

    return copy_all


def _copier_of(destinations: Sequence[Tensor], which: Sequence[int]) -> Callable[[Sequence[Tensor]], Any]:
    """A function that copies those at ``which``, all of one dtype."""
    chosen = [dense(destinations[index]) for index in which]
    # Decided here once: what is returned runs at every replay.
    if any(destinations[index] is not whole for index, whole in zip(which, chosen, strict=True)):
        return lambda sources: foreach_copy_(chosen, [dense(sources[index]) for index in which])
    if len(chosen) == 1:
        copy, only = chosen[0].copy_, which[0]
        return lambda sources: copy(sources[only], non_blocking=True)
    if len(chosen) == len(destinations):
        return lambda sources: foreach_copy_(chosen, sources, non_blocking=True)
    return lambda sources: foreach_copy_(chosen, [sources[index] for index in which], non_blocking=True)


def dense(tensor: Tensor) -> Tensor:
    """The tensor without expanded dimensions, whose elements would be written more than once."""
    if 0 not in tensor.stride():
        return tensor
    return tensor.as_strided(dense_shape(tensor.shape, tensor.stride()), tensor.stride())
