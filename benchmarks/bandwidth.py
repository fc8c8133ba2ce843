"""``python -m benchmarks.bandwidth [cases] [--millions N]``: what single kernels make of a GPU's memory.

Each case is given tensors of so many million elements in bfloat16 (64 by default) and judged by the bytes it cannot do
without, every input read once and every result written once, over its time: TB/s, beside a copy on the device.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F

import compile_api
from benchmarks.timing import geometric_mean, medians

ROW = 4096
CONTENDERS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda function: function,
    "ours": compile_api.compile,
    "torch.compile": torch.compile,
}
CASES: dict[str, Callable[..., torch.Tensor]] = {
    "copy": lambda x: x.clone(),
    "add": lambda x, y: x + y,
    "gelu": lambda x: F.gelu(x),
    "swiglu": lambda x, y: F.silu(x) * y,
    "chain": lambda x, y: (x * torch.sigmoid(y) + torch.tanh(x - y)) * 0.5,
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": lambda x: F.layer_norm(x, (ROW,)),
    "rms norm, residual": lambda x, y: F.rms_norm(x + y, (ROW,)),
    "row sum": lambda x: x.sum(-1),
    "column sum": lambda x: x.sum(0),
    "full sum": lambda x: x.sum(),
    "transpose, add": lambda x, y: x.t() + y,
    "column norm": lambda x: x / (x.square().sum(0) + 1.0).sqrt(),
    "dropped and scaled": lambda x, mask: torch.where(mask > 0, x * 1.25, 0.0),
}


def inputs_of(function: Callable[..., torch.Tensor], elements: int) -> list[torch.Tensor]:
    """Random tensors of rows, square where one is turned."""
    count = function.__code__.co_argcount
    side = 1 << ((elements.bit_length() - 1) // 2)
    shape = (side, side) if "t" in function.__code__.co_names else (elements // ROW, ROW)
    return [torch.randn(shape, device="cuda").bfloat16() for _ in range(count)]


def measure(name: str, elements: int) -> dict[str, float]:
    """TB/s of each contender; results are compared with eager's once."""
    torch.compiler.reset()
    function = CASES[name]
    inputs = inputs_of(function, elements)
    expected = function(*inputs)
    calls: dict[str, Callable[[], Any]] = {}
    for who, wrap in CONTENDERS.items():
        # A code object for each contender: versions are kept by code.
        compiled = wrap(FunctionType(function.__code__.replace(co_name=f"{who.replace('.', '_')}"), globals()))
        torch.testing.assert_close(compiled(*inputs), expected, rtol=3e-2, atol=3e-2)
        calls[who] = partial(compiled, *inputs)
    moved = sum(tensor.nbytes for tensor in [*inputs, expected])
    return {who: moved / seconds / 1e12 for who, seconds in medians(calls, "cuda").items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bandwidth", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {list(CASES)}; all where none is given")
    parser.add_argument("--millions", type=int, default=64, help="elements of a tensor, in units of 2**20")
    chosen = parser.parse_args()
    source, target = (torch.randn(chosen.millions << 20, device="cuda").bfloat16() for _ in range(2))
    (seconds,) = medians({"copy": partial(target.copy_, source)}, "cuda").values()
    print(f"torch {torch.__version__}, {chosen.millions} Mi elements in bfloat16; TB/s")
    print(f"{'a copy on the device':24}{2 * source.nbytes / seconds / 1e12:10.2f}")
    print(f"{'case':24}" + "".join(f"{who:>15}" for who in CONTENDERS))
    ratios = []
    with torch.no_grad():
        for name in chosen.cases or CASES:
            try:
                found = measure(name, chosen.millions << 20)
            # A wrong result has no time worth printing.
            except AssertionError as error:
                print(f"{name:24}{str(error).splitlines()[0]}", flush=True)
                continue
            ratios.append(found["ours"] / found["torch.compile"])
            print(f"{name:24}" + "".join(f"{found[who]:15.2f}" for who in CONTENDERS), flush=True)
    print(f"geometric mean against torch.compile: {geometric_mean(ratios):.2f}x")


if __name__ == "__main__":
    main()
