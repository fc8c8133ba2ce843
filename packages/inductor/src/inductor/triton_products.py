"""Matrix products by our kernels where they are faster than the library's: part of ``max_autotune``.

Every product of a graph on a GPU is timed as it is, with the kernels around it, and as one kernel in several tilings.
What won is kept in the cache, per device and kernel.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from inductor import costs
from inductor.cache import Cache, key_of
from inductor.codegen.triton import HEADER, PrintedTritonKernel, print_kernel
from inductor.ir.graph import Graph
from inductor.ir.kernel import Kernel
from inductor.ir.layout import Tiling
from inductor.ir.program import Buffer, Call, Ref
from inductor.launcher import Launchers
from inductor.options import Options
from inductor.schedule.gpu import choose_shape
from inductor.schedule.kernels import storage, with_own_names
from inductor.schedule.layouts import with_layout
from inductor.schedule.memory import Work
from inductor.schedule.products import Alternative, alternatives, partial_sums, split_k
from inductor.toolchain import open_cache
from inductor.torch_versions import pytree
from inductor.triton_launch import Loaded, compile_in_workers, content, identity
from inductor.triton_tune import random_numbers, seconds

TILINGS = (
    Tiling(128, 256, 64, 8, 3), Tiling(256, 128, 64, 8, 3), Tiling(128, 128, 64, 8, 3), Tiling(128, 128, 64, 4, 4),
    Tiling(64, 256, 64, 8, 3), Tiling(64, 128, 64, 4, 4), Tiling(128, 64, 64, 4, 4), Tiling(64, 64, 64, 4, 4),
    Tiling(32, 128, 64, 4, 4), Tiling(16, 128, 128, 4, 4), Tiling(16, 64, 128, 4, 4),
)  # fmt: skip
"""The tilings that are tried.  Columns: rows and columns of a block, the part of the sum done at once, warps, stages of
loads under way."""


def choose(graph: Graph, work: Sequence[Work], options: Options) -> tuple[Graph, Sequence[Work]]:
    """The work with kernels in the place of calls where that is faster, and the graph with their buffers; the same
    objects where none is."""
    on_gpu = any(buffer.device.type == "cuda" for buffer in graph.buffers.values())
    if not on_gpu or not torch.cuda.is_available():
        return graph, work
    # ``taken`` are the pieces of work that a choice replaces; its kernels stand where the last of them stood, as all
    # that they read is there by then.
    store, taken, placed = open_cache(options), set[int](), dict[int, list[Kernel]]()
    buffers = dict(graph.buffers)
    for found in alternatives(work, graph):
        # Alternatives may overlap; the first that wins keeps what it took.
        if taken.isdisjoint(found.replaced):
            choice = _choice(found, work, graph, store)
            if choice is not None:
                taken.update(found.replaced)
                placed[max(found.replaced)] = list(choice.kernels)
                buffers.update(choice.buffers)
    if not placed:
        return graph, work
    return replace(graph, buffers=buffers), reworked(work, taken, placed)


def reworked(work: Sequence[Work], taken: set[int], placed: Mapping[int, Sequence[Kernel]]) -> list[Work]:
    """The work without the pieces that are ``taken``, with kernels placed at some positions."""
    result: list[Work] = []
    for number, item in enumerate(work):
        result += [item] if number not in taken else placed.get(number, ())
    return result


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to compute a product: the kernels, and the buffers that only they need."""

    tiling: Tiling
    splits: int
    kernels: tuple[Kernel, ...]
    buffers: Mapping[str, Buffer]


def variant(kernel: Kernel, tiling: Tiling, splits: int, graph: Graph) -> Variant | None:
    """The kernel in a tiling, with its sums split; None where these do not fit."""
    assert kernel.product is not None
    kernel = replace(kernel, product=replace(kernel.product, tiling=tiling))
    if splits == 1:
        return Variant(tiling, splits, (kernel,), {})
    device = graph.buffers[kernel.arguments[0].name].device
    sums = partial_sums(kernel, splits, device)
    kernels = split_k(kernel, splits, sums, graph.buffers)
    return Variant(tiling, splits, tuple(kernels), {sums.name: sums}) if kernels else None


def variants(kernel: Kernel, graph: Graph, processors: int) -> Iterator[Variant]:
    """The ways to try."""
    made = kernel.product
    assert made is not None
    length = made.inner.size.as_int() if made.inner.size is not None else None
    for tiling in TILINGS:
        # Blocks of both factors for every stage have to fit shared memory.
        if (tiling.rows + tiling.columns) * tiling.inner * tiling.stages * made.dtype.itemsize > costs.GPU.shared_bytes:
            continue
        shape = choose_shape(replace(kernel, product=replace(made, tiling=tiling)))
        # The matrix is so small that half the tile covers it.
        if any(tile.block is not None and 2 * tile.block <= side for tile, side in
               zip(shape.tiles[-2:], (tiling.rows, tiling.columns), strict=True)):  # fmt: skip
            continue  # a smaller tiling does the same
        blocks = shape.blocks.as_int() or 1
        ways = [(tiling, 1)]
        # More blocks than processors: programs that go from block to block may win.  Fewer: cutting the sum makes more
        # of them.
        if blocks > processors:
            ways.append((replace(tiling, persistent=processors), 1))
        if blocks < processors and length is not None:
            ways += [(tiling, splits) for splits in costs.GPU.splits if length // splits >= costs.GPU.shortest_sum]
        for way, splits in ways:
            if (found := variant(kernel, way, splits, graph)) is not None:
                yield found


# -- time -------------------------------------------------------------------------------------------------------------


def _choice(found: Alternative, work: Sequence[Work], graph: Graph, store: Cache) -> Variant | None:
    """The fastest way to compute a product; None where that is the library's."""
    device = graph.buffers[found.kernel.arguments[0].name].device.index or 0
    printed = _printed(found.kernel)
    # Text, versions and device: another of any of these asks again.
    name = f"{key_of((*content(printed), identity(), torch.cuda.get_device_name(device)))}.tiling"
    # ``null`` is kept as well: the library's won.
    if (known := store.find_data(name)) is not None:
        way: dict[str, Any] | None = json.loads(known)
        return None if way is None else variant(found.kernel, Tiling(**way["tiling"]), way["splits"], graph)
    best = _fastest(found, work, graph, store, device)
    kept = None if best is None else {"tiling": asdict(best.tiling), "splits": best.splits}
    store.keep_data(name, json.dumps(kept).encode())
    return best


def _fastest(found: Alternative, work: Sequence[Work], graph: Graph, store: Cache, device: int) -> Variant | None:
    """The variant that beats the library by a margin, by timing all of them."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    ways = list(variants(found.kernel, graph, processors))
    buffers = {name: buffer for way in ways for name, buffer in way.buffers.items()} | graph.buffers
    # All at once by processes; below they are found in the cache.
    compile_in_workers([_loaded(kernel, store, device) for way in ways for kernel in way.kernels])
    with torch.cuda.device(device):
        memory = _Memory(buffers, graph, {})
        library = [_run_of(work[number], memory, store, device) for number in found.replaced]
        # -1 is the library's way: the calls and kernels that would be replaced.
        runs: dict[int, list[Callable[[int], None]]] = {-1: library}
        for number, way in enumerate(ways):
            try:
                runs[number] = [_run_of(kernel, memory, store, device) for kernel in way.kernels]
            except Exception:  # noqa: BLE001 - whatever keeps one candidate from running, there are others
                continue
        took: dict[int, list[float]] = {number: [] for number in runs}
        for _ in range(costs.GPU.tuning_turns):
            # In turns, so that a clock that changes hits all ways alike; of each the median counts.
            for number, parts in runs.items():
                took[number].append(seconds(partial(_repeat, parts)))
    medians = {number: statistics.median(times) for number, times in took.items()}
    best = min(medians, key=lambda number: medians[number])
    # It has to be faster by a margin: equals change places with the noise.
    return ways[best] if best >= 0 and medians[best] < costs.GPU.better * medians[-1] else None


def _repeat(parts: Sequence[Callable[[int], None]]) -> None:
    stream = torch.cuda.current_stream().cuda_stream
    for _ in range(costs.GPU.tuning_launches):
        for part in parts:
            part(stream)


def _printed(kernel: Kernel) -> PrintedTritonKernel:
    return print_kernel(with_layout(with_own_names(kernel)))


def _loaded(kernel: Kernel, store: Cache, device: int) -> Loaded:
    printed = _printed(kernel)
    text = f"{HEADER}\n\n{printed.text}"
    return Loaded(printed, store.keep_text(f"{key_of([text])}.py", text), store, device)


@dataclass(frozen=True, slots=True)
class _Memory:
    """Random numbers in the place of a graph's buffers, made when they are needed."""

    buffers: Mapping[str, Buffer]
    graph: Graph
    made: dict[str, torch.Tensor]

    def flat(self, name: str) -> torch.Tensor:
        if name not in self.made:
            buffer = self.buffers[name]
            self.made[name] = random_numbers(storage(buffer).as_int() or 0, buffer.dtype)
        return self.made[name]

    def strided(self, name: str) -> torch.Tensor:
        view = self.graph.views.get(name)
        buffer, base, offset = (self.buffers[name], name, 0) if view is None else (view.buffer, view.base, view.offset)
        sizes, strides = ([value.as_int() or 0 for value in values] for values in (buffer.sizes, buffer.strides))
        return self.flat(base).as_strided(sizes, strides, offset if isinstance(offset, int) else offset.as_int() or 0)


def _run_of(item: Work, memory: _Memory, store: Cache, device: int) -> Callable[[int], None]:
    """A function that starts a kernel or a call on a stream."""
    if isinstance(item, Call):
        return _call_of(item, memory)
    launch = _loaded(item, store, device).launcher(Launchers(None))
    addresses = [memory.flat(argument.name).data_ptr() for argument in item.arguments]
    return lambda stream: launch(stream, *addresses)


def _call_of(call: Call, memory: _Memory) -> Callable[[int], None]:
    arguments = pytree.tree_map(
        lambda value: memory.strided(value.name) if isinstance(value, Ref) else value, call.args
    )
    (output,) = call.outputs
    assert output is not None
    # Into memory that is there, as a kernel writes: allocation is no part of the comparison.
    function, result = call.target.overloadpacket.out, memory.strided(output.name)
    return lambda stream: function(*arguments, out=result)
