"""The findings of a search: a program for each kind of difference, made small in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHRINK_SECONDS = 400
EACH = 3
"""The number of programs of one kind that are made small: a kind is coarse, and may hold several mistakes."""

FOOT = """

if __name__ == "__main__":
    import sys

    from search.runner import judge

    print(judge(open(__file__).read(), sys.argv[1] if sys.argv[1:] else "{backend}").difference)
"""


@dataclass(slots=True)
class Shrinking:
    """A process that makes a program small, and the file in which it does."""

    process: subprocess.Popen[bytes]
    path: Path
    line: dict[str, Any]
    until: float


class Findings:
    """Counts of all programs, and what differs by its kind."""

    def __init__(self, backend: str, folder: Path | None, small: bool) -> None:
        self.backend, self.folder, self.small = backend, folder, small
        self.count = self.raised = self.captured = self.unmade = self.documented = 0
        self.seeds: list[int] = []
        self.kinds: dict[str, int] = {}
        self.texts: set[str] = set()
        self.shrinking: list[Shrinking] = []
        self.start = time.monotonic()

    def counted(self, line: dict[str, Any]) -> int:
        """Counts a program, and returns how many of its kind there have been with it."""
        if line.get("unmade"):
            self.unmade += 1
            return 0
        self.count += 1
        self.raised += bool(line.get("raised"))
        self.captured += bool(line.get("graphs"))
        self.documented += bool(line.get("documented"))
        kind = line.get("signature")
        if not kind:
            return 0
        self.seeds.append(line["seed"])
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        return self.kinds[kind]

    def told(self, line: dict[str, Any], text: str) -> None:
        """Takes the result of a program, and its text as the child made it: making one may end a process."""
        seen = self.counted(line)
        if not seen:
            return
        if seen > EACH:
            return
        if line["signature"].startswith("search "):  # a fault of the search itself, perhaps in writing the program
            self.show(text, line)
        # Each try of a program that hangs would take its whole time.
        elif self.small and not line["signature"].startswith("hangs"):
            self.shrinking.append(shrink(line, text, self.backend))
        else:
            self.show(text, line)

    def poll(self) -> None:
        """Shows what has become small, and whatever had its time."""
        for one in list(self.shrinking):
            if one.process.poll() is None:
                if time.monotonic() < one.until:
                    continue
                # Its file holds the smallest text so far.
                one.process.kill()
                one.process.wait()
            self.shrinking.remove(one)
            self.show(one.path.read_text(), one.line)
            one.path.unlink()

    def finish(self) -> None:
        while self.shrinking:
            self.poll()
            time.sleep(0.1)

    def show(self, text: str, line: dict[str, Any]) -> None:
        """Prints a program and writes it to the folder, unless one of the same shape has been shown."""
        if text and shape(text) in self.texts:
            return
        self.texts.add(shape(text))
        print(f"\n# seed {line['seed']}: {line['signature']}\n# {line['difference']}\n{text}", flush=True)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"\W+", "_", f"{self.backend}_{line['signature']}")[:80] + f"_{line['seed']}.py"
            said = "\n# ".join(line["difference"].splitlines())
            (self.folder / name).write_text(f"# {said}\n{text}{FOOT.format(backend=self.backend)}")

    def summary(self) -> str:
        """The counts of all programs, and how many differ by kind."""
        rate = self.count / max(0.001, time.monotonic() - self.start)
        kinds = "".join(
            f"\n  {count:6} {kind}" for kind, count in sorted(self.kinds.items(), key=lambda kind: -kind[1])
        )
        return (
            f"{self.count} programs ({rate:.1f} a second), {self.raised} of them raise in eager, "
            f"{f'{self.unmade} that end torch in eager, ' if self.unmade else ''}"
            f"{f'{self.documented} differ as docs/faq.md says, ' if self.documented else ''}"
            f"{len(self.seeds)} differ{':' if kinds else ''}{kinds}"
        )


def shape(text: str) -> str:
    """A text without its numbers and names: two of one shape show one mistake."""
    return re.sub(r"\d+\.?\d*|\b[a-z]\b", "_", text)


def environment() -> dict[str, str]:
    """The variables of child processes: memory that nothing was written to holds the same in all runs (with glibc), and
    tensors that grow show it."""
    return {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.perturb=192:glibc.malloc.tcache_count=0"}


def shrink(line: dict[str, Any], text: str, backend: str) -> Shrinking:
    """Begins to make the program of a line small; the process may die of what it tries, and the file stays."""
    handle, name = tempfile.mkstemp(suffix=".py", prefix="program")
    with open(handle, "w") as file:
        file.write(text)
    command = [sys.executable, "-m", "search.shrink", name, backend, line["signature"].split()[0]]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    return Shrinking(process, Path(name), line, time.monotonic() + SHRINK_SECONDS)
