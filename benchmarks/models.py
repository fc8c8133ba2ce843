"""``python -m benchmarks.models [rows] [--device cuda] [--batch N] [--length N] [--profile]``: whole models, in turn.

Each row is a model in inference or in a training step (forward and backward), in bfloat16 on a GPU and in float32 on a
CPU.  Time per call is a median over turns; the first call, compiling included, is a fresh compilation in a process
whose caches on disk may be warm.  ``--profile`` shows instead which kernels a GPU spends a call's time on.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from corpus.vision import define_missing_operators

import compile_api
from benchmarks.device_time import device_time, table
from benchmarks.timing import medians

Step = Callable[[torch.nn.Module, Any, dict[str, Any]], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Sizes:
    device: str
    dtype: torch.dtype
    batch: int
    length: int
    image: int


@dataclass(frozen=True, slots=True)
class Row:
    make: Callable[[Sizes], tuple[torch.nn.Module, dict[str, Any]]]
    step: Step


def infer(model: torch.nn.Module, call: Any, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return _first(call(**inputs))


def train(model: torch.nn.Module, call: Any, inputs: dict[str, Any]) -> torch.Tensor:
    model.zero_grad(set_to_none=True)
    loss = _first(call(**inputs)).float().square().mean()
    loss.backward()
    return loss.detach()


def _first(result: Any) -> torch.Tensor:
    found: torch.Tensor = result if isinstance(result, torch.Tensor) else result[0]
    return found


def resnet18(sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    model = importlib.import_module("torchvision").models.resnet18()
    return model, {"x": torch.randn(sizes.batch, 3, sizes.image, sizes.image)}


def bert(sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    hub = importlib.import_module("transformers")
    config = hub.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return hub.BertModel(config), {"input_ids": torch.randint(0, 30000, (sizes.batch, sizes.length))}


def gpt2(sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    hub = importlib.import_module("transformers")
    config = hub.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return hub.GPT2Model(config), {"input_ids": torch.randint(0, 50000, (sizes.batch, sizes.length))}


ROWS = {
    "resnet18": Row(resnet18, infer),
    "resnet18 training": Row(resnet18, train),
    "bert": Row(bert, infer),
    "bert training": Row(bert, train),
    "gpt2": Row(gpt2, infer),
    "gpt2 training": Row(gpt2, train),
}
CONTENDERS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda model: model,
    "ours": compile_api.compile,
    "torch.compile": torch.compile,
}
WITH_GRAPHS: dict[str, Callable[[Any], Any]] = {
    "ours, graphs": lambda model: compile_api.compile(model, mode="reduce-overhead"),
    "torch.compile, graphs": lambda model: torch.compile(model, mode="reduce-overhead"),
}


def prepared(
    row: Row, sizes: Sizes, contenders: dict[str, Callable[[Any], Any]]
) -> tuple[dict[str, Callable[[], Any]], dict[str, float]]:
    """A call of each contender, compiled and warm, and the seconds its first one took."""
    torch.manual_seed(0)
    model, inputs = row.make(sizes)
    model = model.to(sizes.device, sizes.dtype).eval()
    inputs = {name: value.to(sizes.device) for name, value in inputs.items()}
    inputs = {name: value.to(sizes.dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    calls: dict[str, Callable[[], Any]] = {}
    first: dict[str, float] = {}
    for name, wrap in contenders.items():
        twin = copy.deepcopy(model)
        compiled = wrap(twin)
        start = time.perf_counter()
        found = row.step(twin, compiled, inputs)
        torch.testing.assert_close(found, row.step(model, model, inputs), rtol=0.1, atol=0.2)
        first[name] = time.perf_counter() - start
        calls[name] = lambda twin=twin, compiled=compiled: row.step(twin, compiled, inputs)
        for _ in range(3):
            calls[name]()
    return calls, first


def measure(row: Row, sizes: Sizes, contenders: dict[str, Callable[[Any], Any]]) -> dict[str, tuple[float, float]]:
    """Seconds per call, and of the first call, of each contender."""
    calls, first = prepared(row, sizes, contenders)
    times = medians(calls, sizes.device, turns=7, turn=0.05)
    return {name: (times[name], first[name]) for name in contenders}


def profiled(row: Row, sizes: Sizes, contenders: dict[str, Callable[[Any], Any]]) -> str:
    """The kernels of the contenders but eager, side by side."""
    calls, _ = prepared(row, sizes, {name: wrap for name, wrap in contenders.items() if name != "eager"})
    return table({name: device_time(call) for name, call in calls.items()})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="row", help=f"of {list(ROWS)}; all where none is given")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--graphs", action="store_true", help="reduce-overhead modes too")
    parser.add_argument("--profile", action="store_true", help="device time by kernel instead of time per call")
    chosen = parser.parse_args()
    define_missing_operators()
    dtype = torch.bfloat16 if chosen.device == "cuda" else torch.float32
    sizes = Sizes(chosen.device, dtype, chosen.batch, chosen.length, chosen.image)
    contenders = CONTENDERS | (WITH_GRAPHS if chosen.graphs else {})
    if chosen.profile:
        for name in chosen.rows or ROWS:
            print(f"{name}, us of device time per call and launches", profiled(ROWS[name], sizes, contenders), sep="\n")
        return
    print(f"torch {torch.__version__} on {sizes.device}, {sizes.dtype}; ms per call (first call, seconds)")
    for name in chosen.rows or ROWS:
        found = measure(ROWS[name], sizes, contenders)
        cells = "  ".join(f"{who} {call * 1e3:.3f} ({first:.2f})" for who, (call, first) in found.items())
        ratios = "  ".join(f"{found[who][0] / found['ours'][0]:.2f}x {who}" for who in found if who != "ours")
        print(f"{name:20}{cells}  | ours: {ratios}", flush=True)


if __name__ == "__main__":
    main()
