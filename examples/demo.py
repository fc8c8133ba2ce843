"""What ``nox -s demo`` shows: a small ResNet and a fused function, eager against compiled, with what was built."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from models.resnet import resnet18

import compile_api
from compile_api.progress import Progress

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def fused(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Seven operators that one pass over memory can do."""
    return torch.nn.functional.gelu(x * torch.sigmoid(y) + torch.tanh(x - y)) * 0.5 + torch.cos(x)


def seconds(function: Callable[[], Any]) -> float:
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    function()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def compare(title: str, function: Callable[..., Any], *inputs: torch.Tensor, repeats: int) -> None:
    """Compiles, checks the result against eager, and times both in turn."""
    print(f"\n{title}")
    compiled = compile_api.compile(function)
    progress = Progress(sys.stderr, after=0.0)
    progress.stage(title)
    expected = function(*inputs)
    first = time.perf_counter()
    actual = compiled(*inputs)
    first = time.perf_counter() - first
    progress.done()
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)
    times = [(seconds(lambda: function(*inputs)), seconds(lambda: compiled(*inputs))) for _ in range(repeats)]
    eager, ours = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"  eager {eager * 1e3:.2f} ms, compiled {ours * 1e3:.2f} ms: {eager / ours:.2f} times as fast")
    print(f"  first call, with compiling: {first:.2f} s; result equal to eager's")
    report = compile_api.report(compiled)
    print("  " + str(report).replace("\n", "\n  "))
    readable = [kernel.path for kernel in report.kernels if kernel.path]
    if readable:
        print(f"  a generated kernel to read: {readable[0]}")


def main() -> None:
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(f"compile-api {compile_api.__version__}, torch {torch.__version__}, using the {DEVICE.upper()}: {name}")
    torch.manual_seed(0)
    with torch.no_grad():
        compare("fused pointwise function, 4 million elements", fused,
                torch.randn(4 << 20, device=DEVICE), torch.randn(4 << 20, device=DEVICE), repeats=20)  # fmt: skip
        compare("ResNet-18, inference, batch 4 of 3 x 128 x 128", resnet18().to(DEVICE).eval(),
                torch.randn(4, 3, 128, 128, device=DEVICE), repeats=10)  # fmt: skip


if __name__ == "__main__":
    main()
