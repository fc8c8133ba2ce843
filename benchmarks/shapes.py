"""``python -m benchmarks.shapes [cases]``: the guessed launch shapes of Triton kernels, beside the best ones.

Every kernel of a case is timed in all the shapes that ``max_autotune`` would try; a line gives the bandwidth of the
guess, and the best shapes beside it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from inductor import triton_tune
from inductor.cache import Cache
from inductor.codegen.triton import print_kernel
from inductor.decompose import prepare
from inductor.ir.layout import Shape
from inductor.ir.program import Launch
from inductor.lower import lower
from inductor.schedule import schedule
from inductor.schedule.layouts import with_layout

F32, BF16 = torch.float32, torch.bfloat16
SHOWN = 6


def gelu_backward(gradient: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A gradient that is kept and summed over rows, for a bias: a tile is read once for both."""
    result = torch.ops.aten.gelu_backward(gradient, x, approximate="tanh")
    return result, result.sum(0)


def joined(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Results of ``cat`` that are summed where they are written."""
    result = torch.cat([x, y, z], 1)
    return result, result.sum(0)


def layer_norm_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    """Reductions along rows and across them in one graph, over the same operands."""
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, (768,), w, b, 1e-5)
    return torch.ops.aten.native_layer_norm_backward(g, x, [768], mean, rstd, w, b, [True, True, True])


CASES: dict[str, tuple[Callable[..., Any], torch.dtype, tuple[tuple[int, ...], ...]]] = {
    "transpose + add": (lambda x, y: x.t() + y, F32, ((2048, 2048), (2048, 2048))),
    "transpose + add, half": (lambda x, y: x.t() + y, BF16, ((8192, 4096), (4096, 8192))),
    "channels last": (lambda x: x.permute(0, 2, 3, 1).contiguous(), BF16, ((32, 128, 56, 56),)),
    "gelu backward": (gelu_backward, BF16, ((4096, 3072), (4096, 3072))),
    "cat and sum": (joined, BF16, ((4096, 768),) * 3),
    "layer norm backward": (layer_norm_backward, BF16, ((4096, 768), (4096, 768), (768,), (768,))),
    "column sum": (lambda x: x.sum(0), F32, ((4096, 1024),)),
    "column softmax": (lambda x: x.softmax(0), F32, ((512, 8192),)),
    "full sum": (lambda x: x.sum(), F32, ((4096, 1024),)),
    "softmax": (lambda x: x.softmax(-1), F32, ((4096, 1024),)),
    "long softmax": (lambda x: x.softmax(-1), BF16, ((4096, 50304),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (768,), w, b), BF16, ((4096, 768), (768,), (768,))),
    "gelu": (lambda x: F.gelu(x, approximate="tanh"), BF16, ((4096, 3072),)),
}


def describe(shape: Shape, seconds: float) -> str:
    """A shape as sizes of blocks and warps, with its microseconds."""
    return f"{'x'.join(map(str, shape.constants.values()))}/{shape.warps} {seconds * 1e6:.1f}"


def measure(name: str, store: Cache) -> None:
    """Times every kernel of a case in all its shapes, and prints the guess and the best."""
    function, dtype, sizes = CASES[name]
    inputs = [torch.randn(size, device="cuda", dtype=dtype) for size in sizes]
    program = schedule(lower(prepare(make_fx(function)(*inputs), inputs), inputs))
    for kernel in (step.kernel for step in program.steps if isinstance(step, Launch)):
        printed = print_kernel(with_layout(kernel))
        seconds = triton_tune.timings(printed, 0, store)
        moved = sum((argument.numel.as_int() or 0) * argument.dtype.itemsize for argument in kernel.arguments)
        best = sorted(seconds, key=lambda shape: seconds[shape])[:SHOWN]
        guess = f"{moved / seconds[printed.shape] / 1e12:.2f} TB/s, {describe(printed.shape, seconds[printed.shape])}"
        print(f"{name}: {kernel.name}, {moved / 1e6:.0f} MB, {guess} µs; best of {len(seconds)}:", end=" ")
        print(", ".join(describe(shape, seconds[shape]) for shape in best), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {list(CASES)}; all where none is given")
    with tempfile.TemporaryDirectory() as folder:
        for name in parser.parse_args().cases or CASES:
            measure(name, Cache(Path(folder), 1 << 30))


if __name__ == "__main__":
    main()
