"""``nox -s bench -- [cases] [--start] [--json FILE]``: a table of ratios, eager and torch.compile beside ours."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import torch

import compile_api
from benchmarks.cases import CASES
from benchmarks.start import cold_and_warm
from benchmarks.timing import medians


def measure(name: str, device: str) -> dict[str, Any]:
    function, inputs = CASES[name](device)
    ours, theirs = compile_api.compile(function), torch.compile(function)
    with torch.no_grad():
        torch.testing.assert_close(ours(*inputs), function(*inputs), rtol=1e-3, atol=1e-3)
        theirs(*inputs)
        contenders = {"eager": function, "ours": ours, "torch.compile": theirs}
        return medians({who: lambda f=f: f(*inputs) for who, f in contenders.items()}, device)


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def run_table(names: list[str], device: str) -> list[dict[str, Any]]:
    print(f"{'case':28}{'eager':>11}{'ours':>11}{'torch.compile':>15}{'vs eager':>10}{'vs t.c.':>10}")
    rows = []
    for name in names:
        seconds = measure(name, device)
        row = {"case": name, **seconds, "vs_eager": seconds["eager"] / seconds["ours"],
               "vs_torch_compile": seconds["torch.compile"] / seconds["ours"]}  # fmt: skip
        rows.append(row)
        times = "".join(f"{seconds[who] * 1e6:>{width}.1f}" for who, width in
                        (("eager", 11), ("ours", 11), ("torch.compile", 15)))  # fmt: skip
        print(f"{name:28}{times}{row['vs_eager']:>9.2f}x{row['vs_torch_compile']:>9.2f}x", flush=True)
    means = [geometric_mean([row[key] for row in rows]) for key in ("vs_eager", "vs_torch_compile")]
    print(f"{'geometric mean (times in µs)':65}{means[0]:>9.2f}x{means[1]:>9.2f}x")
    return rows


def start_table(names: list[str], device: str) -> list[dict[str, Any]]:
    print(f"\n{'first call, seconds':28}{'cold ours':>11}{'cold t.c.':>11}{'warm ours':>11}{'warm t.c.':>11}")
    rows = []
    for name in names:
        ours, theirs = cold_and_warm(name, "ours", device), cold_and_warm(name, "torch.compile", device)
        rows.append({"case": name, "cold": ours[0], "warm": ours[1], "their_cold": theirs[0], "their_warm": theirs[1]})
        print(f"{name:28}{ours[0]:>11.2f}{theirs[0]:>11.2f}{ours[1]:>11.2f}{theirs[1]:>11.2f}", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"one of {', '.join(CASES)}; all where none is given")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--start", action="store_true", help="measure first calls in fresh processes too")
    parser.add_argument("--json", type=Path, help="write the figures here")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.cases if name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    names = chosen.cases or list(CASES)
    print(f"torch {torch.__version__} on {chosen.device}, {torch.get_num_threads()} threads")
    result = {"device": chosen.device, "torch": torch.__version__, "run": run_table(names, chosen.device)}
    if chosen.start:
        result["start"] = start_table(names, chosen.device)
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
