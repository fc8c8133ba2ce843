"""The tuning of launch shapes on the device, for ``max_autotune``.

The heuristics' guess is one of the candidates, so that nothing becomes slower but by the noise of the clock.  What won
is kept beside the machine code, per device and kernel: the next process neither compiles nor times the others.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from inductor import costs
from inductor.cache import Cache, key_of
from inductor.codegen.triton import HEADER, PrintedTritonKernel, print_kernel
from inductor.ir.layout import Shape
from inductor.launcher import Launchers
from inductor.schedule.gpu import candidates
from inductor.torch_versions import sleep
from inductor.triton_launch import Loaded, compile_in_workers, content, identity


def tuned(
    kernels: Sequence[PrintedTritonKernel], devices: Mapping[str, int], store: Cache
) -> tuple[PrintedTritonKernel, ...]:
    """The kernels in the shapes that ran fastest."""
    return tuple(_tuned(kernel, devices[kernel.kernel.name], store) for kernel in kernels)


def _tuned(printed: PrintedTritonKernel, device: int, store: Cache) -> PrintedTritonKernel:
    name = f"{key_of((*content(printed), identity(), torch.cuda.get_device_name(device)))}.shape"
    if printed.shape.tiling is not None:  # chosen before
        return printed
    if (known := store.find_data(name)) is not None:
        return _in_shape(printed, printed.shape.with_blocks(**json.loads(known)))
    if not can_be_timed(printed):
        return printed
    took = timings(printed, device, store)
    best = min(took, key=lambda shape: took[shape])
    if took[best] > costs.GPU.better * took[printed.shape]:
        best = printed.shape
    store.keep_data(name, json.dumps({"blocks": best.constants, "warps": best.warps}).encode())
    return _in_shape(printed, best)


def _in_shape(printed: PrintedTritonKernel, shape: Shape) -> PrintedTritonKernel:
    return print_kernel(replace(printed.kernel, layout=shape))


def can_be_timed(printed: PrintedTritonKernel) -> bool:
    """True for kernels of known size that are worth it; not for those that read positions from tensors, which random
    numbers are not."""
    arguments = printed.kernel.arguments
    if printed.checked or printed.kernel.sizes:
        return False
    return (
        sum((argument.numel.as_int() or 0) * argument.dtype.itemsize for argument in arguments)
        >= costs.GPU.smallest_tuned
    )


def timings(printed: PrintedTritonKernel, device: int, store: Cache) -> dict[Shape, float]:
    """The median seconds per launch of each candidate that compiles; they are timed in turns."""
    loaded: dict[Shape, Loaded] = {}
    for shape in candidates(printed.shape):
        candidate = _in_shape(printed, shape)
        text = f"{HEADER}\n\n{candidate.text}"
        loaded[shape] = Loaded(candidate, store.keep_text(f"{key_of([text])}.py", text), store, device)
    # All candidates at once, by processes; below they are found in the cache.
    compile_in_workers(list(loaded.values()))
    with torch.cuda.device(device):
        arguments = _arguments(printed)
        runs = {shape: partial(_run, kernel.launcher(Launchers(None)), arguments) for shape, kernel in loaded.items()}
        found: dict[Shape, list[float]] = {shape: [] for shape in runs}
        for _ in range(costs.GPU.tuning_turns):
            for shape, run in runs.items():
                found[shape].append(seconds(run))
    return {shape: statistics.median(times) for shape, times in found.items()}


def _arguments(printed: PrintedTritonKernel) -> list[list[torch.Tensor]]:
    """Sets of buffers to work on, so many that the cache does not hold the ones used last."""
    given = [(a.numel.as_int() or 0, a.dtype, "cpu" if a.number else "cuda") for a in printed.kernel.arguments]
    total = sum(numel * dtype.itemsize for numel, dtype, _ in given)
    sets = min(costs.GPU.tuning_launches, 1 + costs.GPU.cache_bytes // max(total, 1))
    return [[random_numbers(numel, dtype, device) for numel, dtype, device in given] for _ in range(sets)]


def random_numbers(numel: int, dtype: torch.dtype, device: str = "cuda") -> torch.Tensor:
    """A buffer of random numbers: computing with zeros would be faster than with real ones."""
    if dtype.is_floating_point:
        return torch.rand(numel, device=device).to(dtype)
    return torch.randint(0, 2, (numel,), device=device).to(dtype)


def _run(launch: Callable[..., None], sets: Sequence[Sequence[torch.Tensor]]) -> None:
    stream = torch.cuda.current_stream().cuda_stream
    for number in range(costs.GPU.tuning_launches):
        launch(stream, *(tensor.data_ptr() for tensor in sets[number % len(sets)]))


def seconds(run: Callable[[], None]) -> float:
    """The seconds per launch on the device; one call of ``run`` queues many."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run()
    # The first run has loaded the kernel.
    sleep(1_000_000)  # all launches are queued before the first one starts
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / costs.GPU.tuning_launches
