"""Tells where CPython's tests end differently when their functions are captured.

    python compare.py [--replaced] MODULE...

A module that differs is one line, followed by a line for each test and by our own mistakes that it met.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).with_name("run_module.py")
TIMEOUT = 600


class Died(Exception):
    """The process that ran the tests did not come to its end."""


def run_module(mode, module):
    """What ``run_module.py`` writes, from a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "outcomes.json")
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, str(SCRIPT), mode, f"test.{module}", str(path)]
        try:
            ended = subprocess.run(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as expired:
            raise Died(f"{mode}: not finished after {TIMEOUT} s") from expired
        if not path.exists():
            raise Died(f"{mode}: exit status {ended.returncode}\n{ended.stderr[-4000:]}")
        return json.loads(path.read_text())


def differences(module, mode="captured"):
    """Test to (outcomes without capture, outcomes with it), where they are not the same."""
    plain, captured = run_module("plain", module)["outcomes"], run_module(mode, module)
    assert captured["counters"]["frames"], "nothing was captured"
    assert not [name for name in plain if name.startswith("unittest.loader._FailedTest")], "there is no such module"
    names = {**plain, **captured["outcomes"]}
    found = {name: (plain.get(name), captured["outcomes"].get(name)) for name in names}
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}, captured


def main(*args):
    mode = "replaced" if "--replaced" in args else "captured"
    for module in (arg for arg in args if not arg.startswith("-")):
        try:
            different, captured = differences(module, mode)
        except Died as died:
            print(f"{module}: {died}", flush=True)
            continue
        print(
            f"{module}: {len(captured['outcomes'])} tests, {len(different)} differ, {captured['counters']}", flush=True
        )
        for name, (without, with_capture) in different.items():
            print(f"    {name}: {without} -> {with_capture}")
        for mistake in dict.fromkeys(captured["mistakes"]):
            print("   ", *mistake.strip().splitlines()[-4:], sep="\n        ", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
