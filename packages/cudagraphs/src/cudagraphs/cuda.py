"""The driver over torch's CUDA graphs and caching allocator.

The only module that calls torch.cuda or torch._C; what differs between torch versions would be settled here.  Between
recordings the allocator counts nothing in the pool as taken (``driver.py`` says why): tensors handed out are built over
bare addresses and own nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from .driver import Boxed
from .errors import CannotRecord, Refusal
from .feeds import Feed
from .gain import Took
from .inputs import dense_shape
from .storage import Block, View
from .tensors import TorchTensors, copier
from .torch_versions import (
    cdata_of,
    construct_CUDA_Tensor_From_Storage_And_Metadata,
    construct_storage_from_data_pointer,
    cuda_beginAllocateCurrentThreadToPool,
    cuda_clearCublasWorkspaces,
    cuda_endAllocateToPool,
    cuda_getCheckpointState,
    cuda_getCurrentRawStream,
    cuda_isCurrentStreamCapturing,
    cuda_releasePool,
    cuda_setCheckpointPoolState,
    tensors_data_ptrs_at_indices_equal,
)

MOST_FEEDS = 4
"""The most inputs that are copied by nodes of the graph: for more, one launch for all costs less than a call for
each."""


class _Graph:
    """A graph of torch, with the copies that fill its buffers: within it, or in one launch before it."""

    __slots__ = ("feeds", "fill", "replay")

    def __init__(
        self, graph: torch.cuda.CUDAGraph, feeds: list[Feed], fill: Callable[[Sequence[Tensor]], Any] | None
    ) -> None:
        self.replay, self.feeds, self.fill = graph.replay, feeds, fill


class CudaDriver(TorchTensors):
    """One CUDA device with a private pool, which lives as long as the process: tensors handed out point into it."""

    def __init__(self, index: int) -> None:
        torch.cuda.init()
        super().__init__(torch.device("cuda", index))
        self.index = index
        self._stream = torch.cuda.Stream(self.device)
        self._pool = torch.cuda.graph_pool_handle()
        self._last_stream: torch.cuda.Stream | None = None
        self._last_raw: int | None = None
        self._is_recording = False
        self._disturbed: str | None = None
        self._word = torch.zeros(1, device=self.device)
        # Entering the pool once creates it, and not releasing it keeps it.
        cuda_beginAllocateCurrentThreadToPool(index, self._pool)
        cuda_endAllocateToPool(index, self._pool)

    # The pool.

    def occupy(self, state: Any, blocks: Iterable[Block]) -> list[UntypedStorage]:
        if state is None:
            return []
        wanted = {block.address for block in blocks}
        taken, checkpoint = state
        storages = [_bare_storage(address, nbytes, self.device) for address, nbytes in taken]
        try:
            cuda_setCheckpointPoolState(self.index, checkpoint, [], [cdata_of(storage) for storage in storages])
        except RuntimeError as error:  # the allocator is configured in a way that has no checkpoints
            raise CannotRecord(Refusal.POOL_DISTURBED, str(error).split("\n", 1)[0]) from None
        # Each storage owns its block now; those that are not wanted free theirs here.
        return [storage for storage, (address, _) in zip(storages, taken, strict=True) if address in wanted]

    def occupied(self) -> frozenset[int]:
        return frozenset(block["address"] for block in self._blocks() if block["state"] != "inactive")

    def checkpoint(self) -> Any:
        taken = [(block["address"], block["size"]) for block in self._blocks() if block["state"] != "inactive"]
        return taken, cuda_getCheckpointState(self.index, self._pool)

    def segments(self) -> list[Block]:
        return [Block(segment["address"], segment["total_size"]) for segment in self._segments()]

    def buffer_like(self, tensor: Tensor) -> Tensor:
        self._require_pool()
        with self._allocating_in_pool(), torch.inference_mode(False):
            buffer = torch.empty_strided(
                dense_shape(tensor.shape, tensor.stride()), tensor.stride(), dtype=tensor.dtype, device=self.device
            )
            return buffer.expand(tensor.shape)

    # Work.

    def recording(self) -> bool:
        return self._is_recording or cuda_isCurrentStreamCapturing()

    def record(
        self, fn: Boxed, inputs: Sequence[Any], buffers: Sequence[Tensor], sources: Sequence[Tensor]
    ) -> tuple[_Graph, Any]:
        self._require_pool()
        fed = len(buffers) <= MOST_FEEDS and all(map(_is_one_stretch, buffers))
        # Only a graph that is kept shows its nodes, which feeds point elsewhere later.
        graph = torch.cuda.CUDAGraph(keep_graph=fed and bool(buffers))
        feeds: list[Feed] = []
        cuda_clearCublasWorkspaces()  # else a workspace made before is used by every graph at once
        self._is_recording = True
        try:
            with self._capturing(graph, self._pool), _no_autocast_cache():
                if fed:
                    feeds = [_feed(*pair) for pair in zip(buffers, sources, strict=True)]
                result = fn(list(inputs))
        except BaseException:  # a capture that an interrupt left open would fail whatever the process does next
            self._recover()
            raise
        finally:
            self._is_recording = False
            cuda_clearCublasWorkspaces()  # those made in the pool belong to this graph alone
        if feeds:
            graph.instantiate()
        for feed in feeds:
            feed.belongs_to(graph.raw_cuda_graph_exec())
        return _Graph(graph, feeds, None if fed else copier(buffers)), result

    def follow(self) -> None:
        raw = cuda_getCurrentRawStream(self.index)
        if raw == self._last_raw:
            return
        stream = torch.cuda.current_stream(self.device)
        if self._last_stream is not None:
            stream.wait_stream(self._last_stream)
        self._last_stream, self._last_raw = stream, raw

    def launch(self, graph: _Graph, sources: Sequence[Tensor]) -> None:
        if graph.fill is not None:
            graph.fill(sources)
        else:
            for feed, source in zip(graph.feeds, sources, strict=True):
                if (address := source.data_ptr()) != feed.address:
                    feed.point_at(address)
        graph.replay()

    def lend(self, block: Block, views: Sequence[View]) -> list[Tensor]:
        return _over(_bare_storage(block.address, block.nbytes, self.device), views)

    def same_addresses(self, which: Sequence[int], addresses: Sequence[int]) -> Callable[[list[Any]], bool]:
        known = dict(zip(which, addresses, strict=True))
        expected = [known.get(index) for index in range(max(which, default=-1) + 1)]  # one for each of the values
        # Torch's own comparison, in C++: this is asked at every replay.
        equal, indices = tensors_data_ptrs_at_indices_equal, list(which)
        return lambda values: equal(values, expected, indices)

    def timed(self, work: Callable[[], Any]) -> tuple[Took, Any]:
        torch.cuda.synchronize(self.device)
        start = time.perf_counter()
        result = work()
        back = time.perf_counter() - start
        torch.cuda.synchronize(self.device)
        return Took(back, time.perf_counter() - start), result

    # Below: torch's capture and allocator.

    def _require_pool(self) -> None:
        if self._disturbed is not None:
            raise CannotRecord(Refusal.POOL_DISTURBED, self._disturbed)

    @contextmanager
    def _capturing(self, graph: torch.cuda.CUDAGraph, pool: object) -> Iterator[None]:
        # The outer stream context brings the caller's stream back; torch.cuda.graph does not where ending it fails.
        with (
            torch.cuda.device(self.device),
            torch.cuda.stream(torch.cuda.current_stream(self.device)),
            torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"),
        ):
            yield

    def _recover(self) -> None:
        """Brings torch back to where it was after a recording that CUDA broke off.

        Ending such a capture raises before torch has closed the pool and told the generator that capturing is over.
        The first is done here; a small capture that succeeds does the second.  A torch that keeps the pool open in a
        place that cannot be reached (2.11 does) records into it no more; what is recorded already still replays.
        """
        with suppress(RuntimeError):  # it was closed, where only the function itself failed
            cuda_endAllocateToPool(self.index, self._pool)
        try:
            with self._capturing(torch.cuda.CUDAGraph(), self._pool):
                self._word.zero_()
        except RuntimeError as error:
            reason = str(error).split("\n", 1)[0]
            self._disturbed = f"an earlier recording was broken off, and torch keeps its pool closed since ({reason})"
        # Last, because a capture that fails to begin leaves the generator as one that was broken off does.
        with self._capturing(torch.cuda.CUDAGraph(), None):
            self._word.zero_()

    @contextmanager
    def _allocating_in_pool(self) -> Iterator[None]:
        """Allocates in the pool, on the stream of the recordings, because blocks of one stream are not given to
        another."""
        with torch.cuda.stream(self._stream):
            cuda_beginAllocateCurrentThreadToPool(self.index, self._pool)
            try:
                yield
            finally:
                cuda_endAllocateToPool(self.index, self._pool)
                cuda_releasePool(self.index, self._pool)

    def _segments(self) -> list[dict[str, Any]]:
        return [s for s in torch.cuda.memory_snapshot(self._pool) if s["device"] == self.index]

    def _blocks(self) -> list[dict[str, Any]]:
        return [block for segment in self._segments() for block in segment["blocks"]]


@contextmanager
def _no_autocast_cache() -> Iterator[None]:
    """A weight cast before the recording and kept in autocast's cache is freed long before the last replay."""
    enabled = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)


def _is_one_stretch(buffer: Tensor) -> bool:
    """True if the buffer fills its memory without gaps or repetitions, and so does any tensor of its layout."""
    return 0 < buffer.numel() * buffer.element_size() == buffer.untyped_storage().nbytes()


def _feed(buffer: Tensor, source: Tensor) -> Feed:
    nbytes = buffer.untyped_storage().nbytes()
    return Feed(buffer.data_ptr(), source.data_ptr(), nbytes, torch.cuda.current_stream().cuda_stream)


def _bare_storage(address: int, nbytes: int, device: torch.device) -> UntypedStorage:
    return construct_storage_from_data_pointer(address, device, nbytes)


def _over(storage: UntypedStorage, views: Sequence[View]) -> list[Tensor]:
    return [
        construct_CUDA_Tensor_From_Storage_And_Metadata(
            {"dtype": view.dtype, "size": view.shape, "stride": view.strides, "storage_offset": view.offset}, storage
        )
        for view in views
    ]
