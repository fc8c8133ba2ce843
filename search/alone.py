"""``python -m search.alone`` runs the program that it reads in eager alone: what ends the process is torch's own."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import torch

from search.findings import environment
from search.program import calls
from search.worker import limit_memory


def ends_in_eager(text: str, limit: float) -> bool:
    """True if a process that runs the program in eager alone dies, too."""
    command = [sys.executable, "-m", "search.alone"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        ended = subprocess.run(
            command, input=text.encode(), capture_output=True, check=False, timeout=limit, env=environment()
        )
        # Ended by a signal; a program that merely raises ends by itself.
        return ended.returncode < 0
    return False


def main() -> None:
    torch.set_num_threads(1)
    limit_memory()
    for _ in calls(sys.stdin.read(), lambda function: function):
        pass


if __name__ == "__main__":
    main()
