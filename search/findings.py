"""What was found: a program for each kind of difference, made small in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from search.generator import generate

EACH = 3
"""How many programs of one kind are made small: a kind is coarse, and may hold several mistakes."""

FOOT = '''

if __name__ == "__main__":
    import sys

    from search.runner import judge

    print(judge(open(__file__).read(), sys.argv[1] if sys.argv[1:] else "{backend}").difference)
'''


class Findings:
    """Counts of all programs, and what differs by its kind."""

    def __init__(self, backend: str, folder: Path | None, small: bool) -> None:
        self.backend, self.folder, self.small = backend, folder, small
        self.count = self.raised = self.captured = 0
        self.seeds: list[int] = []
        self.kinds: dict[str, int] = {}
        self.texts: set[str] = set()
        self.start = time.monotonic()

    def told(self, line: dict[str, Any]) -> None:
        self.count += 1
        self.raised += bool(line["raised"])
        self.captured += bool(line["graphs"])
        if not line["signature"]:
            return
        self.seeds.append(line["seed"])
        seen = self.kinds[line["signature"]] = self.kinds.get(line["signature"], 0) + 1
        if seen <= EACH:
            self.show(line)

    def show(self, line: dict[str, Any]) -> None:
        text = generate(line["seed"])
        if self.small:
            text = shrunk(text, self.backend)
        if shape(text) in self.texts:
            return
        self.texts.add(shape(text))
        print(f"\n# seed {line['seed']}: {line['difference']}\n{text}", flush=True)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"{self.backend}_{line['signature'].replace(' ', '_')}_{line['seed']}.py"
            (self.folder / name).write_text(f"# {line['difference']}\n{text}{FOOT.format(backend=self.backend)}")

    def summary(self) -> str:
        rate = self.count / max(0.001, time.monotonic() - self.start)
        kinds = "".join(f"\n  {count:6} {kind}" for kind, count in sorted(self.kinds.items(), key=lambda kind: -kind[1]))
        return (
            f"{self.count} programs ({rate:.1f} a second), {self.raised} of them raise in eager, "
            f"{len(self.seeds)} differ{':' if kinds else ''}{kinds}"
        )


def shape(text: str) -> str:
    """A text without its numbers and names: two of one shape show one mistake."""
    return re.sub(r"\d+\.?\d*|\b[a-z]\b", "_", text)


def shrunk(text: str, backend: str, limit: float = 120.0) -> str:
    """The text made small by a process of its own, which may die of what it tries; then it is as it was."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(text)
        try:
            subprocess.run([sys.executable, "-m", "search.shrink", str(path), backend], timeout=limit, check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        except subprocess.TimeoutExpired:
            pass
        return path.read_text()
