"""The driver: the few things asked of a device, behind a protocol, so that everything else can be tested without one.

``cuda.py`` implements it over torch; the tests implement it over byte arrays.  Must not know what a recording is.

The pool's allocator is *idle* between recordings: nothing in it counts as allocated.  Memory in the hands of callers
is kept from being overwritten by this package's own books alone (``storage.Ledger``).  Only while recording is the
allocator made to agree with the books: ``occupy`` restores a state in which the blocks still held are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from .gain import Took
from .storage import Block, Handed, Held, View

Tensor: TypeAlias = Any
Graph: TypeAlias = Any
State: TypeAlias = Any
Boxed: TypeAlias = Callable[[list[Any]], Any]
"""A function of a list, which it may empty, so that memory is free as soon as it has been read."""


class Driver(Protocol):
    """One device and one private memory pool on it."""

    # Looking at values.

    def is_tensor(self, value: object) -> bool:
        """True for a tensor that is nothing but memory and its layout, on whatever device."""

    def on_device(self, tensor: Tensor) -> bool:
        """True if it is on this driver's device."""

    def on_cpu(self, tensor: Tensor) -> bool:
        """True if it is in host memory."""

    def readable(self, tensor: Tensor) -> bool:
        """True if the device can read it in place: its own memory, and pinned memory of the host."""

    def requires_grad(self, tensor: Tensor) -> bool:
        """True if autograd would record a computation with it, in the present mode."""

    def signature(self, values: Sequence[object]) -> Hashable:
        """Everything about the values that a recording bakes in: layouts, types, plain values, modes."""

    def view(self, tensor: Tensor) -> View:
        """The tensor's view of its storage."""

    def block(self, tensor: Tensor) -> Block:
        """The memory of its storage."""

    def address(self, tensor: Tensor) -> int:
        """The address of its first element."""

    def version(self, tensor: Tensor) -> int:
        """A number that grows when the tensor is changed in place."""

    def note_change(self, tensors: Sequence[Tensor]) -> None:
        """Lets the versions of tensors grow that a replay has changed in place."""

    def hold_weakly(self, tensor: Tensor) -> Held:
        """A weak look at its storage, which does not keep it alive."""

    def same_addresses(self, which: Sequence[int], addresses: Sequence[int]) -> Callable[[list[Any]], bool]:
        """A function that tells whether the values at ``which`` have these addresses; made once, called at every
        replay."""

    # The pool.

    def occupy(self, state: State | None, blocks: Iterable[Block]) -> object:
        """Makes exactly ``blocks`` count as allocated, out of a ``state`` that had them; idle again when the result is
        dropped."""

    def occupied(self) -> frozenset[int]:
        """The addresses that the pool's allocator counts as allocated."""

    def checkpoint(self) -> State:
        """The allocator's state now."""

    def segments(self) -> list[Block]:
        """The memory that the pool has reserved."""

    def fill(self, block: Block, byte: int) -> None:
        """Writes the same byte all over a part of the pool."""

    def buffer_like(self, tensor: Tensor) -> Tensor:
        """A tensor in the pool of the same type, sizes and strides, from the start of its storage."""

    # Work.

    def recording(self) -> bool:
        """True while a graph is being recorded."""

    def record(
        self, fn: Boxed, inputs: Sequence[Any], buffers: Sequence[Tensor], sources: Sequence[Tensor]
    ) -> tuple[Graph, Any]:
        """Records the call in the pool; its results hold no values yet.

        Each launch first copies sources of its own into the ``buffers``, which own nothing; those given here are only
        examples.
        """

    def follow(self) -> None:
        """Orders the next work on the current stream after all earlier replays, on whatever stream they were."""

    def launch(self, graph: Graph, sources: Sequence[Tensor]) -> None:
        """Copies the sources into the graph's buffers and replays it, on the current stream."""

    def copy(self, destinations: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
        """Copies each source to its destination, all at once where possible."""

    def lend(self, block: Block, views: Sequence[View]) -> list[Tensor]:
        """Tensors over one new storage that lies at ``block`` and owns nothing."""

    def handout(self, blocks: Sequence[tuple[Block, Sequence[View]]]) -> Handed:
        """Blocks to lend to one caller after another."""

    def view_of(self, tensor: Tensor, view: View) -> Tensor:
        """Another view of the storage of ``tensor``."""

    def timed(self, work: Callable[[], Any]) -> tuple[Took, Any]:
        """The result of ``work``, run between two waits for the device, and the time it took."""
