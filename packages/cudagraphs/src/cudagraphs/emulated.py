"""An emulated device on the CPU: its pool is a stretch of host memory, its graphs are calls made again.

Exists so that everything over a driver runs with torch's own tensors (views, strides, versions, lifetimes) where there
is no CUDA device.  It gains nothing; it is for tests.  Must not know recordings, trees or managers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from .driver import Boxed
from .gain import Took
from .inputs import dense_shape
from .simulated import Allocator
from .storage import Block, View
from .tensors import TorchTensors, WeakStorage, copier
from .torch_versions import construct_storage_from_data_pointer

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Call:
    """A graph: the function, its arguments at fixed addresses, and the memory that each result goes to."""

    fn: Boxed
    arguments: tuple[Any, ...]
    homes: tuple[Block | None, ...]
    fill: Callable[[Sequence[Tensor]], Any]


class EmulatedDriver(TorchTensors):
    """A driver for which tensors on the CPU stand for tensors on a device."""

    def __init__(self, nbytes: int = 1 << 26) -> None:
        super().__init__(torch.device("cpu"))
        self._memory = torch.zeros(nbytes, dtype=torch.uint8)
        self._allocator = Allocator(self._memory.data_ptr())
        self._owners: dict[int, WeakStorage] = {}
        self._is_recording = False

    def on_cpu(self, tensor: Tensor) -> bool:
        return False

    # The pool.

    def occupy(self, state: Any, blocks: Iterable[Block]) -> list[UntypedStorage]:
        return [self._owning(Block(block.address, state[block.address])) for block in blocks]

    def occupied(self) -> frozenset[int]:
        return frozenset(self.checkpoint())

    def checkpoint(self) -> dict[int, int]:
        for address in [address for address, owner in self._owners.items() if not owner.alive()]:
            del self._owners[address]
            self._allocator.free(address)
        return dict(self._allocator.taken)

    def segments(self) -> list[Block]:
        return [Block(self._allocator.start, self._allocator.reserved - self._allocator.start)]

    def buffer_like(self, tensor: Tensor) -> Tensor:
        shape, strides = dense_shape(tensor.shape, tensor.stride()), tensor.stride()
        nbytes = torch.empty_strided(shape, strides, dtype=tensor.dtype).untyped_storage().nbytes()
        return _over(self._allocate(nbytes), [View(tensor.dtype, tuple(tensor.shape), strides, 0)])[0]

    # Work.

    def recording(self) -> bool:
        return self._is_recording

    def record(
        self, fn: Boxed, inputs: Sequence[Any], buffers: Sequence[Tensor], sources: Sequence[Tensor]
    ) -> tuple[Call, Any]:
        """Runs the function to see what it returns, and takes back what it did to its inputs and to the generator.

        A graph on a device is recorded without being run; here the buffers need values that the function can take.
        """
        fill = copier(buffers)
        fill(sources)
        storages = {value.untyped_storage() for value in inputs if self.is_tensor(value)}
        # Whole storages, as a write may go through any view of one.
        before = [(storage, storage.clone()) for storage in storages]
        self._is_recording = True
        try:
            with torch.random.fork_rng(devices=[]):
                result = fn(list(inputs))
        finally:
            self._is_recording = False
            for storage, content in before:
                storage.copy_(content)
        arguments = tuple(self._at_its_address(value) if self.is_tensor(value) else value for value in inputs)
        results = list(result) if isinstance(result, list | tuple) else [result]
        moved, homes = self._moved_into_pool(results, {storage.data_ptr() for storage in storages})
        return Call(fn, arguments, homes, fill), moved if isinstance(result, list | tuple) else moved[0]

    def follow(self) -> None:
        """Does nothing: there is no other stream."""

    def launch(self, graph: Call, sources: Sequence[Tensor]) -> None:
        graph.fill(sources)
        result = graph.fn(list(graph.arguments))
        results = result if isinstance(result, list | tuple) else [result]
        for value, home in zip(results, graph.homes, strict=True):
            if home is not None:
                _bare_storage(home).copy_(value.untyped_storage())

    def lend(self, block: Block, views: Sequence[View]) -> list[Tensor]:
        return _over(_bare_storage(block), views)

    def timed(self, work: Callable[[], Any]) -> tuple[Took, Any]:
        start = time.perf_counter()
        result = work()
        took = time.perf_counter() - start
        return Took(took, took), result

    def _at_its_address(self, tensor: Tensor) -> Tensor:
        """The tensor as a graph knows it, by its address: a graph keeps no memory alive."""
        return self.lend(self.block(tensor), [self.view(tensor)])[0]

    def _moved_into_pool(self, results: list[object], given: set[int]) -> tuple[list[Any], tuple[Block | None, ...]]:
        """The results, with new memory among them moved into the pool, where a recording on a device would have made
        it."""
        moved = list(results)
        homes: list[Block | None] = [None] * len(results)
        made: dict[int, UntypedStorage] = {}
        for position, value in enumerate(results):
            address = self.block(value).address if self.is_tensor(value) else 0
            if address and address not in given:
                home = made.setdefault(address, made.get(address) or self._allocate(self.block(value).nbytes))
                moved[position] = _over(home, [self.view(value)])[0]
                homes[position] = Block(home.data_ptr(), home.nbytes())
        return moved, tuple(homes)

    def _allocate(self, nbytes: int) -> UntypedStorage:
        self.checkpoint()
        rounded = -(-nbytes // ALIGNMENT) * ALIGNMENT
        address = self._allocator.allocate(rounded)
        storage = _bare_storage(Block(address, nbytes))
        self._owners[address] = WeakStorage(storage)
        return storage

    def _owning(self, block: Block) -> UntypedStorage:
        storage = _bare_storage(block)
        self._allocator.taken[block.address] = block.nbytes
        self._owners[block.address] = WeakStorage(storage)
        return storage


def _bare_storage(block: Block) -> UntypedStorage:
    return construct_storage_from_data_pointer(block.address, torch.device("cpu"), block.nbytes)


def _over(storage: UntypedStorage, views: Sequence[View]) -> list[Tensor]:
    return [torch.empty(0, dtype=view.dtype).set_(storage, view.offset, view.shape, view.strides) for view in views]
