"""``python -m benchmarks.graphs [rows]``: recorded CUDA graphs against plain launches and ``torch.compile``'s graphs.

Rows: tiny (``x + 1`` on 8 floats), models (inference at sizes where the host's time counts), training (20 steps with
and without graphs: losses and time), memory (what a training step reserves against eager's peak).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import torch
from corpus.vision import define_missing_operators

import compile_api
import cudagraphs
from benchmarks.models import ROWS, WITH_GRAPHS, Sizes, gpt2, measure, resnet18
from benchmarks.timing import medians


def _itself(model: Any) -> Any:
    return model


OURS = {"ours": compile_api.compile, **WITH_GRAPHS}


def tiny() -> None:
    """The same tensor again and again, and another at every call."""
    same = torch.randn(8, device="cuda")
    others = [torch.randn(8, device="cuda") for _ in range(64)]

    def increment(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    recorded = cudagraphs.capture(increment, [same])
    contenders: dict[str, Callable[[Any], Any]] = {"eager": increment, "recorded alone": recorded}
    for name, wrap in OURS.items():
        code = increment.__code__.replace(co_name=name.replace(", ", "_"))  # one for each, so that none sees another's
        contenders[name] = wrap(FunctionType(code, globals()))
    with torch.no_grad():
        for what, inputs in (("one tensor", [same]), ("others", others)):
            calls = {name: partial(_next_call, fn, _endless(inputs)) for name, fn in contenders.items()}
            for call in calls.values():
                for _ in range(8):
                    call()
            found = medians(calls, "cuda")
            print(f"x + 1, {what:11}", "  ".join(f"{name} {1e6 * took:.1f} us" for name, took in found.items()))


def _endless(values: list[Any]) -> Iterator[Any]:
    while True:
        yield from values


def _next_call(fn: Callable[[Any], Any], inputs: Iterator[Any]) -> None:
    fn(next(inputs))


MODELS: dict[str, tuple[str, dict[str, int]]] = {
    "ResNet-18, 16 images": ("resnet18", {"batch": 16}),
    "BERT-base, 1 x 64": ("bert", {"batch": 1, "length": 64}),
    "GPT-2, 1 x 1": ("gpt2", {"batch": 1, "length": 1}),
    "GPT-2, 8 x 64": ("gpt2", {"batch": 8, "length": 64}),
}


def models() -> None:
    for title, (name, sizes) in MODELS.items():
        chosen = Sizes("cuda", torch.bfloat16, **{"batch": 8, "length": 512, "image": 224, **sizes})
        contenders = {"eager": _itself, **OURS}
        found = measure(ROWS[name], chosen, contenders)
        print(f"{title:22}", "  ".join(f"{who} {1e3 * took:.3f} ms" for who, (took, _) in found.items()), flush=True)


TRAINED: dict[str, tuple[Callable[[Sizes], Any], Sizes]] = {
    "ResNet-18": (resnet18, Sizes("cuda", torch.float32, 16, 0, 112)),
    "GPT-2": (gpt2, Sizes("cuda", torch.float32, 4, 128, 0)),
}


def losses(
    make: Callable[[Sizes], Any], sizes: Sizes, wrap: Callable[[Any], Any], steps: int
) -> tuple[list[float], float]:
    """The loss of each step, and the seconds of the last ten."""
    torch.manual_seed(0)
    model, inputs = make(sizes)
    model = model.to(sizes.device, sizes.dtype).train()
    inputs = {name: value.to(sizes.device) for name, value in inputs.items()}
    call, optimizer = wrap(model), torch.optim.SGD(model.parameters(), lr=1e-3)
    seen, start = [], 0.0
    for step in range(steps):
        if step == steps - 10:
            torch.cuda.synchronize()
            start = time.perf_counter()
        result = call(**inputs)
        loss = (result if isinstance(result, torch.Tensor) else result[0]).float().square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        seen.append(loss.detach().clone())
    torch.cuda.synchronize()
    return [float(loss) for loss in seen], (time.perf_counter() - start) / 10


def training() -> None:
    for title, (make, sizes) in TRAINED.items():
        found = {name: losses(make, sizes, wrap, 20) for name, wrap in {"eager": _itself, **OURS}.items()}
        plain, graphed = found["ours"][0], found["ours, graphs"][0]
        apart = max(abs(a - b) / abs(a) for a, b in zip(plain, graphed, strict=True))
        times = "  ".join(f"{name} {1e3 * took:.2f} ms" for name, (_, took) in found.items())
        print(
            f"{title:10} {times}  losses with and without graphs: {apart:.1e} apart, last {graphed[-1]:.6f}", flush=True
        )


def memory() -> None:
    """Peaks of a training step, each in a process of its own, because a pool stays."""
    for title in TRAINED:
        for name in ("eager", *OURS):
            subprocess.run([sys.executable, "-m", "benchmarks.graphs", "--peak", title, name], check=True)


def peak(title: str, name: str) -> None:
    make, sizes = TRAINED[title]
    losses(make, sizes, {"eager": _itself, **OURS}[name], 12)
    used, reserved = torch.cuda.max_memory_allocated() >> 20, torch.cuda.max_memory_reserved() >> 20
    pool = cudagraphs.report().pool_bytes >> 20
    print(f"{title:10} {name:22} peak allocated {used} MiB, reserved {reserved} MiB, pool {pool} MiB", flush=True)


PARTS = {"tiny": tiny, "models": models, "training": training, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graphs", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="row", help=f"of {list(PARTS)}; all where none is given")
    parser.add_argument("--peak", nargs=2, metavar=("model", "contender"), help="one line of the row memory")
    chosen = parser.parse_args()
    define_missing_operators()
    if chosen.peak:
        peak(*chosen.peak)
        return
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    for name in chosen.rows or PARTS:
        PARTS[name]()
        print(cudagraphs.report(), flush=True)


if __name__ == "__main__":
    main()
