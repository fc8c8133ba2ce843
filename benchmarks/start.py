"""First-call times in fresh processes: cold (empty cache) and warm (the cache that the cold run left).

    python -m benchmarks.start --models [MODEL ...] [--device cpu] [--who ours torch.compile]

A run before both writes the byte code of every module that is imported, into a folder for this: installed packages have
it, but checkouts and images of containers often do not, and then compiling sources is most of what is measured."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

CHILD = """
import json, os, sys, time
import torch
from benchmarks import cases, networks
from benchmarks.program import CASES
clock = time.perf_counter if sys.argv[4] == "wall" else lambda: sum(os.times()[:4])
program = CASES[sys.argv[1]](sys.argv[3])
torch.set_grad_enabled(program.training)
start = clock()
if sys.argv[2] == "ours":
    import compile_api
    compiled = compile_api.compile(program.function)
else:
    compiled = torch.compile(program.function)
program.run(compiled)
if sys.argv[3] == "cuda":
    torch.cuda.synchronize()
print(json.dumps(clock() - start))
"""


def first_call(text: str, arguments: Sequence[str], cache: str, byte_code: str) -> Any:
    """The value that a program prints last as JSON: seconds, measured in a process of its own with its caches in a
    folder."""
    env = {**os.environ, "COMPILE_API_CACHE": f"{cache}/ours", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/theirs"}
    env |= {"TRITON_CACHE_DIR": f"{cache}/triton", "PYTHONPYCACHEPREFIX": byte_code, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", text, *arguments]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def cold_and_warm_of(text: str, *arguments: str) -> tuple[Any, Any]:
    """The lines that two processes print, one after the other, which share caches that were empty before."""
    with tempfile.TemporaryDirectory() as folder:
        # Byte code alone: its compiled kernels are in a cache that the measured runs do not see.
        first_call(text, arguments, f"{folder}/before", folder)
        cold, warm = (first_call(text, arguments, f"{folder}/measured", folder) for _ in range(2))
    return cold, warm


def cold_and_warm(case: str, who: str, device: str, clock: str = "wall") -> tuple[float, float]:
    """Seconds from importing the compiler to a case's first result; by the clock on the wall, or the processors' in
    this process and the compilers it starts."""
    return cold_and_warm_of(CHILD, case, who, device, clock)


def main() -> None:
    """Cold and warm, ours with ``warm_start`` beside torch.compile, of whole models (``start_models``)."""
    from benchmarks.start_models import MODELS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", metavar="MODEL", help=f"all, or some of: {'; '.join(MODELS)}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--who", nargs="+", default=["ours", "torch.compile"])
    asked = parser.parse_args()
    if asked.models is None:
        parser.error("say what: --models")
    text, used = "from benchmarks.start_models import main; main()", "processors"
    print(f"{'seconds to the end of two calls':48}{'cold: wall':>12}{used:>12}{'warm: wall':>12}{used:>12}")
    for name in asked.models or MODELS:
        for who in asked.who:
            (cold, cold_used, _), (warm, warm_used, later) = cold_and_warm_of(text, name, who, asked.device)
            figures = f"{cold:12.2f}{cold_used:12.2f}{warm:12.2f}{warm_used:12.2f}"
            print(f"{name:32} {who:15}{figures}   a later call {later * 1e3:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
