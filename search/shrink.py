"""``python -m search.shrink FILE BACKEND [died]``: makes a program small, in its file, while it differs as it did.

Each smaller text is written as soon as it is known to differ.  Where a program ends the process, ``died`` has
each tried in a child.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

from search.minimiser import minimise
from search.runner import judge
from search.worker import limit_memory

LIMIT = 120


def signature(text: str, backend: str) -> str:
    """The kind of difference that a text shows; empty where it shows none."""
    try:
        return judge(text, backend).signature
    except Exception:  # noqa: BLE001 - a text that does not even make its arguments
        return ""


def signal_of(text: str, backend: str) -> str:
    """The signal by which a child that runs the text dies.  One that is only slow tells nothing."""
    child = os.fork()
    if not child:
        # The child ends itself, should it hang.
        signal.alarm(LIMIT)
        signature(text, backend)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    died = os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGALRM
    return f"signal {os.WTERMSIG(status)}" if died else ""


def main(path: Path, backend: str, how: str) -> None:
    torch.set_num_threads(1)
    limit_memory()
    text, told = path.read_text(), signal_of if how == "died" else signature
    first = told(text, backend)
    if not first:
        return

    def still(candidate: str) -> bool:
        same = told(candidate, backend) == first
        if same:
            # At once: this process may be ended at any time.
            path.write_text(candidate + "\n")
        return same

    minimise(text, still)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] if sys.argv[3:] else "differs")
