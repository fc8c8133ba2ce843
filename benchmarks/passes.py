"""Rows that an operator goes over several times, of values that cost something to make: eager and ours, on a CPU.

    python -m benchmarks.passes [part of a name ...]

What is slower than eager was computed once for each pass, or once for each element of a batch that repeats it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import inductor

Rows = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""A function of two tensors of rows, a table, and places in the table for each element of a row."""
SHAPES = ((512, 64), (256, 1024), (16, 20000))
CASES: dict[str, Rows] = {
    "softmax": lambda x, y, table, at: x.softmax(-1),
    "softmax, scaled and masked": lambda x, y, table, at: (x * 0.125 + y).softmax(-1),
    "softmax of a sigmoid": lambda x, y, table, at: (x + 16 * torch.sigmoid(y)).softmax(-1),
    "softmax, capped": lambda x, y, table, at: (30 * torch.tanh(x / 30)).softmax(-1),
    "softmax, with picked biases": lambda x, y, table, at: (x + table[at]).softmax(-1),
    "softmax, with picked sigmoids": lambda x, y, table, at: (x + 16 * torch.sigmoid(table[at])).softmax(-1),
    "softmax, with one row of biases": lambda x, y, table, at: (x + 16 * torch.sigmoid(table[at[0]])).softmax(-1),
    "log softmax": lambda x, y, table, at: (x * 2).log_softmax(-1),
    "norm of a sum": lambda x, y, table, at: F.layer_norm(x + y, x.shape[-1:]),
    "norm of a GELU": lambda x, y, table, at: F.layer_norm(F.gelu(x) + y, x.shape[-1:]),
    "norm of a gate": lambda x, y, table, at: F.layer_norm(F.silu(x) * y, x.shape[-1:]),
    "norm of picked rows": lambda x, y, table, at: F.layer_norm(x + table[at], x.shape[-1:]),
    "product with one row": lambda x, y, table, at: x * torch.tanh(y[0]),
}


def seconds(call: Callable[[], object], count: int) -> float:
    """The least time of a call, of this process, over turns of `count` calls."""
    least = float("inf")
    for _ in range(25):
        start = time.process_time()
        for _ in range(count):
            call()
        least = min(least, (time.process_time() - start) / count)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases whose names contain one of these")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for shape in SHAPES:
        inputs = (torch.randn(shape), torch.randn(shape), torch.randn(500), torch.randint(0, 500, shape))
        for name, rows in CASES.items():
            if chosen.names and not any(part in name for part in chosen.names):
                continue
            compiled = inductor.compile(make_fx(rows)(*inputs), list(inputs))
            count = max(1, 100_000 // inputs[0].numel())
            eager, ours = (seconds(partial(call, *inputs), count) for call in (rows, compiled))
            print(f"{name:34}{shape[0]:>6} x {shape[1]:<7}{eager * 1e6:9.1f}{ours * 1e6:9.1f}{eager / ours:7.2f}x")


if __name__ == "__main__":
    main()
