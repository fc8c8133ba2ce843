"""``python -m benchmarks.models [rows] [--large] [--batch N] [--profile] [--start]``: whole models, contenders in turn.

Each row is a model in inference or in a training step (forward and backward), in bfloat16 on a GPU and in float32 on a
CPU.  Time per call is a median over turns; the first call, compiling included, is a fresh compilation in a process
whose caches on disk may be warm.  ``--profile`` shows instead which kernels a GPU spends a call's time on, ``--start``
how long importing the compiler and the first call take in a fresh process, with caches empty and with them filled.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from corpus.vision import define_missing_operators

import compile_api
from benchmarks.device_time import device_time, table
from benchmarks.start import cold_and_warm_of
from benchmarks.timing import geometric_mean, medians, synchronize

Step = Callable[[torch.nn.Module, Any, dict[str, Any]], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The device, dtype and sizes that a model is made for."""

    device: str
    dtype: torch.dtype
    batch: int
    length: int
    image: int


@dataclass(frozen=True, slots=True)
class Row:
    """A model, and what one measured call of it does."""

    make: Callable[[Sizes], tuple[torch.nn.Module, dict[str, Any]]]
    step: Step
    large: int
    """The batch that fills a GPU."""


def infer(model: torch.nn.Module, call: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """One call without gradients; ``model`` is not asked for, and is there since steps are called alike."""
    with torch.no_grad():
        return _first(call(**inputs))


def train(model: torch.nn.Module, call: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """Forward, a loss of one line and backward; no optimizer, whose time would be in the figure."""
    model.zero_grad(set_to_none=True)
    loss = _first(call(**inputs)).float().square().mean()
    loss.backward()
    return loss.detach()


def _first(result: Any) -> torch.Tensor:
    """Models of transformers give several results, of which the first is what they are for."""
    found: torch.Tensor = result if isinstance(result, torch.Tensor) else result[0]
    return found


def resnet18(sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    model = importlib.import_module("torchvision").models.resnet18()
    return model, {"x": torch.randn(sizes.batch, 3, sizes.image, sizes.image)}


def bert(sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The base model; dropout is off, since no two contenders draw the same numbers."""
    hub = importlib.import_module("transformers")
    config = hub.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return hub.BertModel(config), {"input_ids": torch.randint(0, 30000, (sizes.batch, sizes.length))}


def gpt2(sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The smallest of its sizes, without a cache: the whole text in one call."""
    hub = importlib.import_module("transformers")
    config = hub.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return hub.GPT2Model(config), {"input_ids": torch.randint(0, 50000, (sizes.batch, sizes.length))}


def vit(sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    hub = importlib.import_module("transformers")
    return hub.ViTModel(hub.ViTConfig()), {"pixel_values": torch.randn(sizes.batch, 3, 224, 224)}


def resnext101(sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    model = importlib.import_module("torchvision").models.resnext101_32x8d()
    return model, {"x": torch.randn(sizes.batch, 3, sizes.image, sizes.image)}


def llama(sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A billion parameters: sixteen layers of 2048 with groups of four heads."""
    hub = importlib.import_module("transformers")
    config = hub.LlamaConfig(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, use_cache=False,
    )  # fmt: skip
    return hub.LlamaModel(config), {"input_ids": torch.randint(0, 128000, (sizes.batch, sizes.length))}


ROWS = {
    "resnet18": Row(resnet18, infer, 32),
    "resnet18 training": Row(resnet18, train, 32),
    "resnext101": Row(resnext101, infer, 32),
    "resnext101 training": Row(resnext101, train, 32),
    "vit": Row(vit, infer, 64),
    "vit training": Row(vit, train, 64),
    "bert": Row(bert, infer, 32),
    "bert training": Row(bert, train, 32),
    "gpt2": Row(gpt2, infer, 16),
    "gpt2 training": Row(gpt2, train, 16),
    "llama": Row(llama, infer, 4),
    "llama training": Row(llama, train, 4),
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


def made(row: Row, sizes: Sizes) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model and its inputs, where they shall be and as wide as they shall be."""
    torch.manual_seed(0)
    model, inputs = row.make(sizes)
    inputs = {name: value.to(sizes.device) for name, value in inputs.items()}
    inputs = {name: value.to(sizes.dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    return model.to(sizes.device, sizes.dtype).eval(), inputs


def prepared(
    row: Row, sizes: Sizes, contenders: dict[str, Callable[[Any], Any]]
) -> tuple[dict[str, Callable[[], Any]], dict[str, float]]:
    """A call of each contender, compiled and warm, and the seconds its first one took."""
    model, inputs = made(row, sizes)
    calls: dict[str, Callable[[], Any]] = {}
    first: dict[str, float] = {}
    for name, wrap in contenders.items():
        # A model of its own for each: compiling may change one.
        twin = copy.deepcopy(model)
        compiled = wrap(twin)
        start = time.perf_counter()
        found = row.step(twin, compiled, inputs)
        torch.testing.assert_close(found, row.step(model, model, inputs), rtol=0.1, atol=0.2)
        first[name] = time.perf_counter() - start
        calls[name] = lambda twin=twin, compiled=compiled: row.step(twin, compiled, inputs)
        # Warm before the clock runs: graphs are recorded at later calls.
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


FIRST = """
import time
import torch
start = time.perf_counter()
import {module}
imported = time.perf_counter() - start
from benchmarks.models import *
print(imported + first_call({name!r}, {sizes!r}, {who!r}))
"""


def first_call(name: str, sizes: Sizes, who: str) -> float:
    """Seconds of compiling a model and calling it once."""
    define_missing_operators()
    row = ROWS[name]
    model, inputs = made(row, sizes)
    start = time.perf_counter()
    row.step(model, CONTENDERS[who](model), inputs)
    synchronize(sizes.device)
    return time.perf_counter() - start


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="row", help=f"of {list(ROWS)}; all where none is given")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--large", action="store_true", help="each row with the batch that fills a GPU")
    parser.add_argument("--graphs", action="store_true", help="reduce-overhead modes too")
    parser.add_argument("--without", action="append", default=[], choices=["torch.compile"], help="leave out")
    parser.add_argument("--profile", action="store_true", help="device time by kernel instead of time per call")
    parser.add_argument("--start", action="store_true", help="first calls in fresh processes instead")
    return parser.parse_args()


def main() -> None:
    chosen = parsed()
    dtype = torch.bfloat16 if chosen.device == "cuda" else torch.float32
    plain = Sizes(chosen.device, dtype, chosen.batch, chosen.length, chosen.image)
    contenders = {name: wrap for name, wrap in CONTENDERS.items() if name not in chosen.without}
    contenders |= WITH_GRAPHS if chosen.graphs else {}
    what = "us of device time" if chosen.profile else "first call in seconds" if chosen.start else "ms (first call, s)"
    print(f"torch {torch.__version__} on {plain.device}, {dtype}: {what}")
    means: dict[str, list[float]] = {name: [] for name in contenders if name != "ours"}
    for name in chosen.rows or ROWS:
        sizes = replace(plain, batch=ROWS[name].large) if chosen.large else plain
        if chosen.start:
            print(f"{name:20}{started(name, sizes, [who for who in contenders if who != 'eager'])}", flush=True)
            continue
        define_missing_operators()
        if chosen.profile:
            print(f"{name}, batch {sizes.batch}", profiled(ROWS[name], sizes, contenders), sep="\n", flush=True)
            continue
        try:
            found = measure(ROWS[name], sizes, contenders)
        except (AssertionError, RuntimeError) as error:  # the other rows can be measured all the same
            print(f"{name:20}{type(error).__name__}: {(str(error).splitlines() or [''])[0]}", flush=True)
            continue
        # Whatever came of it: the next row must not meet the versions of this one.
        finally:
            torch.compiler.reset()
            compile_api.reset()
        cells = "  ".join(f"{who} {call * 1e3:.3f} ({first:.2f})" for who, (call, first) in found.items())
        ratios = {who: found[who][0] / found["ours"][0] for who in means}
        for who, ratio in ratios.items():
            means[who].append(ratio)
        shown = "  ".join(f"{ratio:.2f}x {who}" for who, ratio in ratios.items())
        print(f"{name:20}batch {sizes.batch:<4}{cells}  | ours: {shown}", flush=True)
    if any(means.values()):
        print("geometric mean:", "  ".join(f"{geometric_mean(all_of):.2f}x {who}" for who, all_of in means.items()))


def started(name: str, sizes: Sizes, contenders: Sequence[str]) -> str:
    """First calls of a row as text, cold and warm."""
    cells = []
    for who in contenders:
        text = FIRST.format(module="compile_api" if who == "ours" else "torch", name=name, sizes=sizes, who=who)
        cold, warm = cold_and_warm_of(text)
        cells.append(f"{who} {cold:.2f} cold, {warm:.2f} warm")
    return "  ".join(cells)


if __name__ == "__main__":
    main()
