"""A simulated device: memory as words in a dictionary, operators as Python, graphs as lists of instructions.

Exists so that recording and replay can be tested, and drawn, on any machine, and more strictly than on a real device:
reading a word that was freed or wiped raises ``MemoryViolation`` instead of giving whatever lies there.  Must not know
recordings, trees or managers; it implements ``driver.Driver`` and nothing more.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock, get_ident
from typing import Any

from .driver import Boxed
from .errors import CudaGraphsError
from .gain import Took
from .storage import Block, Held, View

WORD = 8  # bytes; every element of a simulated tensor takes one word
POOL_START, MEMORY_START = 0x1000, 0x1000000


class MemoryViolation(AssertionError):
    """A read of memory that holds nothing anybody may rely on."""


class Allocator:
    """First fit over an endless region; deterministic, so that equal states lead to equal addresses."""

    def __init__(self, start: int) -> None:
        self.start = self.reserved = start
        self.taken: dict[int, int] = {}
        self._lock = RLock()  # a collection during an allocation may free

    def allocate(self, nbytes: int) -> int:
        """Takes the lowest gap that is large enough."""
        with self._lock:
            address = self.start
            for taken, size in sorted(self.taken.items()):
                if taken - address >= nbytes:
                    break
                address = taken + size
            self.taken[address] = nbytes
            self.reserved = max(self.reserved, address + nbytes)
            return address

    def free(self, address: int) -> None:
        """Frees a block, which must be taken."""
        with self._lock:
            del self.taken[address]


class Storage:
    """A stretch of memory; owns it if it was given an allocator."""

    def __init__(self, address: int, nbytes: int, owner: Allocator | None = None) -> None:
        self.address, self.nbytes, self.version = address, nbytes, 0
        self.forbidden = ""
        if owner is not None:
            weakref.finalize(self, owner.free, address).atexit = False


class Tensor:
    """A strided view of a storage; values are Python integers.  At home on the device, on the ``"host"``, or in its
    ``"pinned"`` memory."""

    home = "device"

    def __init__(self, device: Device, storage: Storage, view: View) -> None:
        self.device, self.storage, self.view = device, storage, view

    @property
    def addresses(self) -> list[int]:
        """The address of each element, in row-major order."""
        offsets = [self.view.offset]
        for size, stride in zip(self.view.shape, self.view.strides, strict=True):
            offsets = [offset + i * stride for offset in offsets for i in range(size)]
        return [self.storage.address + WORD * offset for offset in offsets]

    def tolist(self) -> list[int]:
        """The values, read as a user would."""
        self.device.synchronise()
        return self.device.read(self)

    def __add__(self, other: Tensor | int) -> Tensor:
        return self.device.compute("add", self, other)

    def __mul__(self, other: Tensor | int) -> Tensor:
        return self.device.compute("mul", self, other)

    def add_(self, other: Tensor | int) -> Tensor:
        """Adds in place, which counts as a write."""
        self.storage.version += 1
        return self.device.compute("add", self, other, out=self)

    def __getitem__(self, part: slice) -> Tensor:
        start, stop, step = part.indices(self.view.shape[0])
        rows = len(range(start, stop, step))
        shape, first = (rows, *self.view.shape[1:]), self.view.strides[0]
        strides = (first * step, *self.view.strides[1:])
        return self.device.view_of(self, View("i64", shape, strides, self.view.offset + start * first))


OPERATORS: dict[str, Callable[[int, int], int]] = {"add": int.__add__, "mul": int.__mul__, "copy": lambda a, _: a}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operator over fixed addresses; the second operand is addresses or one number."""

    operator: str
    left: tuple[int, ...]
    right: tuple[int, ...] | int
    out: tuple[int, ...]


@dataclass(slots=True)
class SimulatedGraph:
    """A recorded graph: instructions in order, after copies into buffers."""

    buffers: Sequence[Tensor]
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _WeakStorage:
    ref: weakref.ref[Storage]

    def alive(self) -> bool:
        return self.ref() is not None


class Handout:
    """Blocks lent to one caller after another."""

    def __init__(self, device: Device, blocks: Sequence[tuple[Block, Sequence[View]]]) -> None:
        self._device, self._blocks = device, blocks
        self._out: dict[int, weakref.ref[Storage]] = {}

    def held(self) -> list[int]:
        """The slots whose last storage is still held."""
        return [slot for slot, storage in self._out.items() if storage() is not None]

    def tensors(self) -> list[Tensor]:
        """Tensors over all blocks."""
        return [tensor for slot in range(len(self._blocks)) for tensor in self.tensors_of(slot)]

    def tensors_of(self, slot: int) -> list[Tensor]:
        """Tensors over a new storage; a second one at a time would be a mistake."""
        if slot in self.held():
            raise MemoryViolation(f"{self._blocks[slot][0]} is handed out while it is still held")
        made = self._device.lend(*self._blocks[slot])
        self._out[slot] = weakref.ref(made[0].storage)
        return made

    def copies(self, slots: Sequence[int]) -> list[list[Tensor]]:
        """Tensors over storages in ordinary memory."""
        return [self._device.clone(*self._blocks[slot]) for slot in slots]

    def forbid(self, slot: int, message: str) -> None:
        """Makes the storage that is out there raise when it is read."""
        storage = self._out.pop(slot)()
        if storage is not None:
            storage.forbidden = message


class Device:
    """The simulated device, and the driver over it."""

    def __init__(self) -> None:
        self.words: dict[int, int] = {}
        self.pool, self.memory = Allocator(POOL_START), Allocator(MEMORY_START)
        self.clock = 0.0
        self.operator_seconds, self.launch_seconds = 1e-5, 2e-6
        self._graph: SimulatedGraph | None = None
        self._into_pool: int | None = None  # the thread that allocates there

    # What a program does on it.

    def tensor(self, values: Sequence[int]) -> Tensor:
        """A one-dimensional tensor in ordinary memory."""
        made = self._empty((len(values),))
        self.words.update(zip(made.addresses, values, strict=True))
        return made

    def host_tensor(self, values: Sequence[int], *, pinned: bool) -> Tensor:
        """A one-dimensional tensor in memory of the host."""
        made = self.tensor(values)
        made.home = "pinned" if pinned else "host"
        return made

    def compute(self, operator: str, left: Tensor, right: Tensor | int, out: Tensor | None = None) -> Tensor:
        """Runs an operator, or writes it down while recording."""
        out = out or self._empty(left.view.shape)
        operand = right if isinstance(right, int) else tuple(right.addresses)
        instruction = Instruction(operator, tuple(left.addresses), operand, tuple(out.addresses))
        if self._graph is not None and self._into_pool == get_ident():
            self._graph.instructions.append(instruction)
        else:
            self._check_allowed(left, right)
            self._execute(instruction)
            self.clock += self.operator_seconds
        return out

    def read(self, tensor: Tensor) -> list[int]:
        """The values of a tensor."""
        self._check_allowed(tensor)
        return [self._word(address) for address in tensor.addresses]

    def synchronise(self) -> None:
        """Waits for the device, which a recording cannot contain."""
        if self._graph is not None and self._into_pool == get_ident():
            raise CudaGraphsError("operation not permitted while recording")

    def wipe(self, kept: Iterable[Tensor]) -> None:
        """Makes every word of the pool unreadable except those of the tensors ``kept``."""
        readable = {address for tensor in kept for address in tensor.addresses}
        for address in [a for a in self.words if a < MEMORY_START and a not in readable]:
            del self.words[address]

    def _empty(self, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Tensor:
        strides = _contiguous(shape) if strides is None else strides
        reach = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        nbytes = WORD * (reach + 1) if all(shape) else 0
        allocator = self.pool if self._into_pool == get_ident() else self.memory
        storage = Storage(allocator.allocate(nbytes), nbytes, allocator)
        for address in range(storage.address, storage.address + nbytes, WORD):
            self.words.pop(address, None)  # fresh memory holds nothing yet
        return Tensor(self, storage, View("i64", shape, strides, 0))

    def _execute(self, instruction: Instruction) -> None:
        right = instruction.right
        rights = [right] * len(instruction.left) if isinstance(right, int) else [self._word(a) for a in right]
        operator = OPERATORS[instruction.operator]
        lefts = [self._word(address) for address in instruction.left]
        self.words.update(zip(instruction.out, map(operator, lefts, rights), strict=True))

    def _word(self, address: int) -> int:
        if address not in self.words:
            raise MemoryViolation(f"read of {address:#x}, which holds nothing")
        return self.words[address]

    def _check_allowed(self, *values: object) -> None:
        for value in values:
            if isinstance(value, Tensor) and value.storage.forbidden:
                raise CudaGraphsError(value.storage.forbidden)

    # The driver: looking at values.

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, Tensor)

    def on_device(self, tensor: Tensor) -> bool:
        return tensor.device is self and tensor.home == "device"

    def on_cpu(self, tensor: Tensor) -> bool:
        return tensor.home != "device"

    def readable(self, tensor: Tensor) -> bool:
        return tensor.device is self and tensor.home != "host"

    def requires_grad(self, tensor: Tensor) -> bool:
        return False

    def signature(self, values: Sequence[object]) -> Hashable:
        return tuple((v.view.shape, v.view.strides) if isinstance(v, Tensor) else v for v in values)

    def view(self, tensor: Tensor) -> View:
        return tensor.view

    def block(self, tensor: Tensor) -> Block:
        return Block(tensor.storage.address, tensor.storage.nbytes)

    def address(self, tensor: Tensor) -> int:
        return tensor.storage.address + WORD * tensor.view.offset

    def version(self, tensor: Tensor) -> int:
        return tensor.storage.version

    def note_change(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            tensor.storage.version += 1

    def hold_weakly(self, tensor: Tensor) -> Held:
        return _WeakStorage(weakref.ref(tensor.storage))

    def same_addresses(self, which: Sequence[int], addresses: Sequence[int]) -> Callable[[list[Any]], bool]:
        pairs = list(zip(which, addresses, strict=True))
        return lambda values: all(self.address(values[index]) == address for index, address in pairs)

    # The driver: the pool.

    def occupy(self, state: object, blocks: Iterable[Block]) -> object:
        if self.pool.taken:
            raise CudaGraphsError("the pool is not idle")
        taken = dict(state) if isinstance(state, tuple) else {}
        wanted = list(blocks)
        for block in wanted:
            if taken.get(block.address, -1) < block.nbytes:
                raise CudaGraphsError(f"{block} is not part of the state")
        self.pool.taken = {block.address: taken[block.address] for block in wanted}
        return [Storage(block.address, block.nbytes, self.pool) for block in wanted]

    def occupied(self) -> frozenset[int]:
        return frozenset(self.pool.taken)

    def checkpoint(self) -> tuple[tuple[int, int], ...]:
        return tuple(sorted(self.pool.taken.items()))

    def segments(self) -> list[Block]:
        return [Block(self.pool.start, self.pool.reserved - self.pool.start)]

    def fill(self, block: Block, byte: int) -> None:
        for address in range(block.address, block.address + block.nbytes, WORD):
            self.words.pop(address, None)  # unreadable, which is stricter than any value

    def buffer_like(self, tensor: Tensor) -> Tensor:
        with self._allocating_in_pool():
            return self._empty(tensor.view.shape, tensor.view.strides)

    # The driver: work.

    def recording(self) -> bool:
        return self._graph is not None

    def record(
        self, fn: Boxed, inputs: Sequence[Any], buffers: Sequence[Tensor], sources: Sequence[Tensor]
    ) -> tuple[SimulatedGraph, Any]:
        graph = self._graph = SimulatedGraph(buffers)
        try:
            with self._allocating_in_pool():
                return graph, fn(list(inputs))
        finally:
            self._graph = None

    def follow(self) -> None:
        """Does nothing: there is one stream."""

    def launch(self, graph: SimulatedGraph, sources: Sequence[Tensor]) -> None:
        if sources:
            self.copy(graph.buffers, sources)
        for instruction in graph.instructions:
            self._execute(instruction)
        self.clock += self.launch_seconds

    def copy(self, destinations: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
        for destination, source in zip(destinations, sources, strict=True):
            self._check_allowed(source)
            self._execute(Instruction("copy", tuple(source.addresses), 0, tuple(destination.addresses)))
        self.clock += self.launch_seconds

    def lend(self, block: Block, views: Sequence[View]) -> list[Tensor]:
        storage = Storage(block.address, block.nbytes)
        return [Tensor(self, storage, view) for view in views]

    def handout(self, blocks: Sequence[tuple[Block, Sequence[View]]]) -> Handout:
        return Handout(self, blocks)

    def clone(self, block: Block, views: Sequence[View]) -> list[Tensor]:
        """Tensors over a copy of a block."""
        copied = self._empty((block.nbytes // WORD,)).storage
        for offset in range(0, block.nbytes, WORD):
            if block.address + offset in self.words:
                self.words[copied.address + offset] = self.words[block.address + offset]
        return [Tensor(self, copied, view) for view in views]

    def view_of(self, tensor: Tensor, view: View) -> Tensor:
        return Tensor(self, tensor.storage, view)

    def timed(self, work: Callable[[], Any]) -> tuple[Took, Any]:
        start = self.clock
        result = work()
        return Took(self.clock - start, self.clock - start), result

    @contextmanager
    def _allocating_in_pool(self) -> Iterator[None]:
        before, self._into_pool = self._into_pool, get_ident()
        try:
            yield
        finally:
            self._into_pool = before


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    count = 1
    for size in reversed(shape):
        strides.insert(0, count)
        count *= size
    return tuple(strides)
