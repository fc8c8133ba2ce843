"""``python -m benchmarks.optimizers [kinds] [--device cpu]``: one step of torch's optimizers over 50 parameters.

Microseconds per step with the gradients at hand, ours beside eager and ``torch.compile``; parameters are compared once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import nn

import compile_api
from benchmarks.timing import medians

SHAPES = [(256, 256), (1024,), (64, 3, 7, 7), (512, 128), (512,)] * 10
KINDS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "Adam": partial(torch.optim.Adam, lr=1e-3),
    "Adam, one by one": partial(torch.optim.Adam, lr=1e-3, foreach=False),
    "Adam, fused": partial(torch.optim.Adam, lr=1e-3, fused=True),
    "Adam, capturable": partial(torch.optim.Adam, lr=1e-3, capturable=True),
    "AdamW": partial(torch.optim.AdamW, lr=1e-3),
    "SGD, momentum": partial(torch.optim.SGD, lr=1e-3, momentum=0.9),
    "RMSprop": partial(torch.optim.RMSprop, lr=1e-3),
}
CONTENDERS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda function: function,
    "ours": compile_api.compile,
    "torch.compile": torch.compile,
}


def step_of(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """A step as a function whose code is its own: versions are kept by code."""

    def step() -> None:
        optimizer.step()

    return FunctionType(step.__code__.replace(), globals(), "step", (), step.__closure__)


def measure(kind: str, device: str) -> dict[str, float]:
    """Seconds of a step by contender; parameters after five steps are the same as eager's."""
    torch.compiler.reset()
    steps: dict[str, Callable[[], Any]] = {}
    expected: list[nn.Parameter] = []
    for who, wrap in CONTENDERS.items():
        torch.manual_seed(0)
        parameters = [nn.Parameter(torch.randn(shape, device=device)) for shape in SHAPES]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        steps[who] = wrap(step_of(KINDS[kind](parameters)))
        for _ in range(5):
            steps[who]()
        expected = expected or [parameter.detach().clone() for parameter in parameters]
        torch.testing.assert_close([p.detach() for p in parameters], expected, rtol=1e-4, atol=1e-5)
    return medians(steps, device)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimizers", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"of {list(KINDS)}; all where none is given")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args()
    print(f"torch {torch.__version__} on {chosen.device}, 50 parameters; µs")
    print(f"{'optimizer':20}" + "".join(f"{who:>15}" for who in CONTENDERS) + "   vs eager  vs torch.compile")
    for kind in chosen.kinds or KINDS:
        found = measure(kind, chosen.device)
        ratios = f"{found['eager'] / found['ours']:10.2f}x{found['torch.compile'] / found['ours']:16.2f}x"
        print(f"{kind:20}" + "".join(f"{1e6 * found[who]:15.1f}" for who in CONTENDERS) + ratios, flush=True)


if __name__ == "__main__":
    main()
