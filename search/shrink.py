"""``python -m search.shrink FILE [BACKEND]``: makes a program in a file small while it differs as it did, in place.

Each smaller text is written as soon as it is known to differ.  A text that may end the process is tried in a child.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

from search.minimiser import minimise
from search.runner import judge

LIMIT = 20


def signature(text: str, backend: str, forked: bool) -> str:
    if not forked:
        try:
            return judge(text, backend).signature
        except Exception:  # noqa: BLE001 - a text that does not even make its arguments
            return ""
    child = os.fork()
    if not child:
        signal.alarm(LIMIT)
        found = signature(text, backend, forked=False)
        os._exit(1 if found else 0)
    _, status = os.waitpid(child, 0)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "differs" if status else ""


def main(path: Path, backend: str) -> None:
    torch.set_num_threads(1)
    text = path.read_text()
    first = signature(text, backend, forked=True)
    forked = first.startswith("signal")
    if not forked:
        first = signature(text, backend, forked=False)
    if not first:
        return

    def still(candidate: str) -> bool:
        same = signature(candidate, backend, forked) == first
        if same:
            path.write_text(candidate + "\n")
        return same

    minimise(text, still)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if sys.argv[2:] else "eager")
