"""``python -m benchmarks.graphs [rows]``: recorded CUDA graphs against plain launches and ``torch.compile``'s graphs.

Rows: ``x + 1`` on 8 floats; inference of ResNet-18, BERT and GPT-2 at sizes where the host's time counts, with another
input at every call; training of ResNet-18 and GPT-2, 20 steps, where losses and memory are compared with those of a
program without graphs.  Each row runs in a process of its own, because a pool stays until the process ends, and so
that a row that fails is reported and costs no other.  Below its times a row says of each figure that is aimed at
whether it was reached.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib
import itertools
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any
from unittest.mock import patch

import torch
from corpus.vision import define_missing_operators

import compile_api
import cudagraphs
from benchmarks.device_time import device_time, short
from benchmarks.models import ROWS as MODELS
from benchmarks.models import WITH_GRAPHS, Sizes, infer
from benchmarks.timing import medians, synchronize

ROW_SECONDS = 100
WARM_UP = 8  # calls: enough to compile, to record and to judge the gain
Wrap = Callable[[Any], Any]


def _itself(model: Any) -> Any:
    """Eager as a contender: it is wrapped in nothing."""
    return model


EAGER: Mapping[str, Wrap] = {"eager": _itself}
OURS: Mapping[str, Wrap] = {"ours": compile_api.compile, "ours, graphs": WITH_GRAPHS["ours, graphs"]}
THEIRS: Mapping[str, Wrap] = {"torch.compile, graphs": WITH_GRAPHS["torch.compile, graphs"]}


def aim(what: str, found: float, most: float) -> None:
    """Says whether a figure is as small as it is meant to be."""
    verdict = "reached" if found <= most else "NOT REACHED"
    print(f"    {what}: {found:.4g}, aimed at <= {most:.4g}: {verdict}", flush=True)


def show_times(title: str, found: Mapping[str, float], scale: float, unit: str) -> None:
    """One row of the table; ``scale`` brings seconds to the unit."""
    print(f"{title:32}" + "  ".join(f"{who} {scale * took:.3f} {unit}" for who, took in found.items()), flush=True)


def contenders(wraps: Mapping[str, Wrap], start: Callable[[Wrap], Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """The calls to be timed, by contender; one that fails is reported and left out."""
    calls: dict[str, Callable[[], Any]] = {}
    for who, wrap in wraps.items():
        began = time.perf_counter()
        try:
            call = start(wrap)
            for _ in range(WARM_UP):
                call()
        except Exception:  # noqa: BLE001 - whatever it is, the others are worth their figures
            print(f"    {who} failed:\n{traceback.format_exc(limit=-4)}", flush=True)
            continue
        print(f"    {who} was ready after {time.perf_counter() - began:.1f} s", flush=True)
        calls[who] = call
    return calls


_NUMBERS = itertools.count()


def _anew(function: Any) -> Any:
    """The function with a code object of its own, so that no contender sees what another made of it."""
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(_NUMBERS)}")
    return FunctionType(code, globals(), closure=function.__closure__)


# -- one kernel -------------------------------------------------------------------------------------------------------


def tiny(device: str) -> None:
    """``x + 1``: the same tensor again and again, and another at every call."""
    same = torch.randn(8, device=device)
    trusted = cudagraphs.Options(gain_samples=0)  # recorded even where that gains nothing, as it does not here

    def always_recorded(fn: Any) -> Any:
        compiled = OURS["ours, graphs"](fn)
        with patch.object(cudagraphs, "Options", lambda **options: trusted):
            compiled(same)
        return compiled

    wraps: dict[str, Wrap] = {
        **EAGER,
        "recorded alone": lambda fn: cudagraphs.capture(fn, [same], options=trusted),
        "ours, recorded": always_recorded,
        **OURS,
        **THEIRS,
    }
    others = [torch.randn(8, device=device) for _ in range(64)]
    for what, inputs in (("the same x", [same]), ("another x at each call", others)):
        with torch.no_grad():
            found = medians(contenders(wraps, lambda wrap, inputs=inputs: _increments(wrap, inputs)), device)
        show_times(f"x + 1, {what}", found, 1e6, "us")
        aim(f"x + 1 through recorded graphs, {what}, us", 1e6 * found["ours, recorded"], 12)
        aim("  where the gain is looked at, against ours without graphs", found["ours, graphs"] / found["ours"], 1.05)
    print(cudagraphs.report())


def _increments(wrap: Wrap, inputs: list[torch.Tensor]) -> Callable[[], Any]:
    """A call of ``x + 1`` over these inputs in turn."""

    def increment(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    call, turns = wrap(_anew(increment)), itertools.cycle(inputs)
    return lambda: call(next(turns))


# -- inference --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Model:
    """A model of ``benchmarks.models``, and its sizes."""

    name: str
    batch: int = 1
    length: int = 1
    image: int = 224

    def made(self, device: str, dtype: torch.dtype) -> tuple[torch.nn.Module, list[dict[str, Any]]]:
        """The model, and four inputs to take in turn."""
        torch.manual_seed(0)
        sizes = Sizes(device, dtype, self.batch, self.length, self.image)
        made = [MODELS[self.name].make(sizes) for _ in range(4)]
        inputs = [{name: _placed(value, device, dtype) for name, value in given.items()} for _, given in made]
        return made[0][0].to(device, dtype), inputs


def _placed(value: torch.Tensor, device: str, dtype: torch.dtype) -> torch.Tensor:
    """On the device; ids of tokens stay integers."""
    return value.to(device, dtype) if value.is_floating_point() else value.to(device)


def inference(title: str, shape: Model, device: str, wraps: Mapping[str, Wrap]) -> dict[str, float]:
    """Seconds per call; results that differ from eager's are reported."""
    model, inputs = shape.made(device, torch.bfloat16 if device == "cuda" else torch.float32)
    model.eval()
    expected = infer(model, model, inputs[0])

    def start(wrap: Wrap) -> Callable[[], Any]:
        twin = copy.deepcopy(model)
        compiled, turns = wrap(twin), itertools.cycle(inputs)

        def call() -> torch.Tensor:
            return infer(twin, compiled, next(turns))

        # Inputs in turn, twice: addresses that change are copied by now.
        for _ in range(2 * len(inputs)):
            call()
        apart = (call() - expected).abs().max().item()
        print(f"    results are {apart:.2g} apart from eager's, whose largest is {expected.abs().max().item():.2g}")
        return call

    # The process's counts, of which this row's are the difference.
    before = cudagraphs.report()
    calls = contenders(wraps, start)
    found = medians(calls, device, turns=7, turn=0.05)
    show_times(title, found, 1e3, "ms")
    _say_what_was_recorded(before)
    if device == "cuda":
        _show_device_time(calls)
    return found


def _say_what_was_recorded(before: cudagraphs.Report) -> None:
    """A ratio says little where graphs were refused: how many ran as such, and why others did not."""
    now = cudagraphs.report()
    kinds = {kind: getattr(now, kind) - getattr(before, kind) for kind in ("recorded", "replayed", "plain")}
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    print(f"    {told}, pool {now.pool_bytes >> 20} MiB")
    for refused in now.refusals[len(before.refusals) :]:
        print(f"    refused: {refused}")


def _show_device_time(calls: Mapping[str, Callable[[], Any]]) -> None:
    """Prints the time that the device works in a call, and its longest kernels: where a call takes longer than that,
    the host is to blame."""
    for who, call in calls.items():
        found = device_time(call)
        largest = ", ".join(f"{took:.0f} {short(name)[:44]}" for name, took in found.microseconds.most_common(5))
        total = sum(found.microseconds.values())
        print(f"    {who}: the device works {total:.0f} us a call; {largest}", flush=True)


def resnet18(device: str) -> None:
    """Long enough on a GPU for launches to hide: graphs must cost nothing."""
    shape = Model("resnet18", batch=16) if device == "cuda" else Model("resnet18", batch=2, image=32)
    found = inference("ResNet-18, 16 images", shape, device, {**EAGER, **OURS, **THEIRS})
    aim("ResNet-18 against torch.compile's graphs", found["ours, graphs"] / found["torch.compile, graphs"], 1.0)


def steps(*shapes: tuple[str, Model]) -> Callable[[str], None]:
    """Steps as in decoding, against ours without graphs."""

    def row(device: str) -> None:
        for title, shape in shapes:
            found = inference(title, shape, device, {**EAGER, **OURS})
            aim(f"{title}, against ours without graphs", found["ours, graphs"] / found["ours"], 1.05)

    return row


def decoding(device: str) -> None:
    """GPT-2 writes token after token, with a cache of fixed size that is written in place."""
    hub = importlib.import_module("transformers")
    config = hub.GPT2Config() if device == "cuda" else hub.GPT2Config(n_layer=2, n_embd=64, n_head=4)
    torch.manual_seed(0)
    model = hub.GPT2LMHeadModel(config).to(device, torch.bfloat16 if device == "cuda" else torch.float32).eval()

    def start(wrap: Wrap) -> Callable[[], Any]:
        cache = hub.StaticCache(config=config, max_cache_len=256)
        positions = itertools.cycle(torch.arange(200, device=device).split(1))
        filled = itertools.cycle(range(200))
        token = torch.zeros(1, 1, dtype=torch.int64, device=device)

        def step(token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
            found = model(token, past_key_values=cache, position_ids=position[None], cache_position=position)
            following: torch.Tensor = found.logits.argmax(-1)
            return following

        # The model is shared and the cache is not: guards hold for one cache.
        compiled = wrap(_anew(step))

        def call() -> torch.Tensor:
            nonlocal token
            # The cache is full after so many tokens: the text begins anew.
            if next(filled) == 0:
                cache.reset()
            with torch.no_grad():
                token = compiled(token, next(positions))
            return token

        print(f"    the first tokens: {[call().item() for _ in range(12)]}")
        return call

    before = cudagraphs.report()
    found = medians(contenders({**EAGER, **OURS}, start), device, turns=7, turn=0.05)
    show_times("GPT-2, decoding", found, 1e3, "ms")
    _say_what_was_recorded(before)
    aim("GPT-2, decoding, against ours without graphs", found["ours, graphs"] / found["ours"], 1.05)


# -- training ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trained:
    """A run of training: the losses, seconds per step at its end, and bytes."""

    losses: list[float]
    seconds: float
    peak: int  # of what is allocated over all steps
    late: int  # the same over the last half
    pool: int


def train(shape: Model, device: str, wrap: Wrap, count: int = 20) -> Trained:
    """Twenty steps from the same seed; time and memory are those of the second half, when all is recorded."""
    model, inputs = shape.made(device, torch.float32)
    call, optimizer = wrap(model.train()), torch.optim.SGD(model.parameters(), lr=1e-3)
    turns, seen = itertools.cycle(inputs), []
    before, peak, start = _begin_peak(device), 0, 0.0
    for step in range(count):
        if step == count // 2:
            synchronize(device)
            peak = _peak(device)
            _begin_peak(device)
        if step == count // 2 + 1:  # the step before found the allocator's cache empty
            synchronize(device)
            start = time.perf_counter()
        optimizer.zero_grad()
        result = call(**next(turns))
        loss = (result if isinstance(result, torch.Tensor) else result[0]).square().mean()
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())
    synchronize(device)
    seconds = (time.perf_counter() - start) / (count - count // 2 - 1)
    late, pool = _peak(device), cudagraphs.report().pool_bytes
    losses = [loss.item() for loss in seen]
    print(f"    {before >> 20} MiB were allocated before")
    return Trained(losses, seconds, max(peak, late), late, pool)


def _begin_peak(device: str) -> int:
    """The bytes that are allocated now; the peak counts from here."""
    gc.collect()
    if device != "cuda":
        return 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _peak(device: str) -> int:
    """The largest number of bytes since ``_begin_peak``; CPUs do not count theirs."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else 0


def training(title: str, on_gpu: Model, on_cpu: Model) -> Callable[[str], None]:
    """Losses, time and memory with and without graphs."""

    def row(device: str) -> None:
        torch.backends.cudnn.deterministic = True  # else two runs of eager differ, too
        shape, found = on_gpu if device == "cuda" else on_cpu, {}
        for who, wrap in {**EAGER, **OURS}.items():
            found[who] = train(shape, device, wrap)
            torch.compiler.reset()
            compile_api.reset()
        show_times(f"{title}, training", {who: one.seconds for who, one in found.items()}, 1e3, "ms")
        print(cudagraphs.report(), cudagraphs.show(), sep="\n")
        eager, plain, graphed = (found[who] for who in ("eager", "ours", "ours, graphs"))
        apart = max(abs(a - b) / abs(a) for a, b in zip(plain.losses, graphed.losses, strict=True))
        aim(f"{title}, losses with and without graphs, relative difference", apart, 1e-5)
        _compare_memory(title, eager, plain, graphed)

    return row


def _compare_memory(title: str, eager: Trained, plain: Trained, graphed: Trained) -> None:
    """Pools of graphs are memory that others cannot use: together they are held against eager's peak."""
    mib = {"eager": eager.peak, "ours": plain.peak, "ours, graphs, outside of the pool": graphed.late}
    told = ", ".join(f"{who} {used / 2**20:.0f} MiB" for who, used in mib.items())
    print(f"    peaks: {told}, pool {graphed.pool / 2**20:.0f} MiB, all while recording {graphed.peak / 2**20:.0f} MiB")
    if eager.peak:
        aim(f"{title}, pool against eager's peak", graphed.pool / eager.peak, 1.2)
        # Its own workspace of the matrix library is in each of the two, and gradients are in the pool.
        print(f"    {title}, all memory against eager's peak: {(graphed.late + graphed.pool) / eager.peak:.2f}")


# -- the rows ---------------------------------------------------------------------------------------------------------

ROWS: dict[str, Callable[[str], None]] = {
    "tiny": tiny,
    "resnet18": resnet18,
    "bert": steps(("BERT-base, 1 x 64", Model("bert", length=64)), ("BERT-base, 8 x 128", Model("bert", 8, 128))),
    "gpt2": steps(("GPT-2, 1 x 1", Model("gpt2")), ("GPT-2, 8 x 64", Model("gpt2", 8, 64))),
    "decoding": decoding,
    "resnet18 training": training("ResNet-18", Model("resnet18", 16, image=112), Model("resnet18", 2, image=32)),
    "gpt2 training": training("GPT-2", Model("gpt2", 4, 128), Model("gpt2", 1, 8)),
}


def in_processes(rows: list[str], device: str) -> Iterator[str]:
    """Runs each row in a process of its own, and yields those that failed."""
    for name in rows:
        began = time.perf_counter()
        print(f"\n== {name}", flush=True)
        try:
            command = [sys.executable, "-m", "benchmarks.graphs", "--here", "--device", device, name]
            failed = subprocess.run(command, timeout=ROW_SECONDS, check=False).returncode != 0
        except subprocess.TimeoutExpired:
            print(f"    it took more than {ROW_SECONDS} s", flush=True)
            failed = True
        print(f"   {time.perf_counter() - began:.0f} s", flush=True)
        if failed:
            yield name


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graphs", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="row", help=f"of {list(ROWS)}; all where none is given")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--here", action="store_true", help="in this process")
    chosen = parser.parse_args()
    rows = chosen.rows or list(ROWS)
    # The process of one row, started by ``in_processes``.
    if chosen.here:
        define_missing_operators()
        for name in rows:
            ROWS[name](chosen.device)
        return 0
    where = torch.cuda.get_device_name() if chosen.device == "cuda" else "a CPU, where nothing is recorded"
    print(f"torch {torch.__version__}, {where}")
    failed = list(in_processes(rows, chosen.device))
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall rows ran", flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
