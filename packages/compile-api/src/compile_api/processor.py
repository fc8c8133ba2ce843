"""Finds instructions that the processor lists and the machine forbids, before torch dies of one.

Some virtual machines show AMX to the programs on them but never allow it: torch's own product of bfloat16 matrices then
ends the process by SIGILL.  Whether it does is asked of a child process.  This module imports nothing of the project
and torch only in the child, because the setting that avoids it has to be made before torch is imported; the test suite
loads it by its path, and ``python processor.py`` prints the settings that this machine needs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

SETTING = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""The widest instructions of oneDNN's that do without AMX."""

_PRODUCT = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"
_PATIENCE = 120


def dies(environment: Mapping[str, str]) -> bool:
    """Tries a product of bfloat16 matrices in a child process: true where it ends by an illegal instruction."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", _PRODUCT], env=environment, capture_output=True, check=False, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == -signal.SIGILL


def lists_amx(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    try:
        return "amx_bf16" in cpuinfo.read_text()
    except OSError:  # another system, or none of its files
        return False


def needed_settings(
    environment: Mapping[str, str] = os.environ,
    *,
    listed: Callable[[], bool] = lists_amx,
    fails: Callable[[Mapping[str, str]], bool] = dies,
) -> dict[str, str]:
    """Environment variables without which torch's bfloat16 products end the process here; mostly none."""
    if any(name in environment for name in SETTING) or not listed():
        return {}
    return dict(SETTING) if fails(environment) else {}


if __name__ == "__main__":
    print(*(f"{name}={value}" for name, value in needed_settings().items()), sep="\n", end="")
