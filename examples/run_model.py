"""One example model, eager against compiled: ``python examples/run_model.py gpt2 --train``.

Both are timed in turn, so that other work on the machine meets both; the figures are medians.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from models.zoo import ZOO
from torch import nn

import compile_api


def step(model: nn.Module, inputs: tuple[torch.Tensor, ...], *, train: bool) -> torch.Tensor:
    """Inference, or forward and backward with a loss over all outputs."""
    if not train:
        with torch.no_grad():
            return model(*inputs)
    model.zero_grad()
    loss = model(*inputs).float().square().mean()
    loss.backward()
    return loss


def seconds(function: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=[*ZOO, "all"])
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--mode", default=None)
    chosen = parser.parse_args()
    for name in ZOO if chosen.model == "all" else [chosen.model]:
        compare(name, chosen)


def compare(name: str, chosen: argparse.Namespace) -> None:
    torch.manual_seed(0)
    example = ZOO[name]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    eager = (example.tiny if chosen.tiny else example.full)().to(device).train(chosen.train)
    inputs = tuple(each.to(device) for each in example.inputs(chosen.batch, chosen.tiny))
    twin = copy.deepcopy(eager)
    compiled = compile_api.compile(twin, backend=chosen.backend, mode=chosen.mode)
    first = seconds(lambda: step(compiled, inputs, train=chosen.train))
    torch.testing.assert_close(
        step(compiled, inputs, train=chosen.train), step(eager, inputs, train=chosen.train), rtol=1e-2, atol=1e-2
    )
    pairs = [
        (
            seconds(lambda: step(eager, inputs, train=chosen.train)),
            seconds(lambda: step(compiled, inputs, train=chosen.train)),
        )
        for _ in range(chosen.repeats)
    ]
    theirs, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    kind = "training" if chosen.train else "inference"
    report = compile_api.report(compiled)
    print(
        f"{name:18} {kind:9} {theirs / ours:5.2f}x eager  ({1e3 * theirs:.1f} -> {1e3 * ours:.1f} ms; "
        f"first call {first:.1f} s, {len(report.captured)} graphs, {len(report.kernels)} kernels)",
        flush=True,
    )


if __name__ == "__main__":
    main()
