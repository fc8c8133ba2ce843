"""Gives ranges of seeds to child processes, reads what they say, and notices those that die or hang."""

from __future__ import annotations

import itertools
import json
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from search.alone import ends_in_eager
from search.findings import Findings, environment

BATCH = 400
"""Programs of one process: few enough that what processes gather costs nothing, many for the start of one."""


@dataclass(slots=True)
class Child:
    """A process, the seeds that it was given, and the one that it is at: its text is None until it is made."""

    process: subprocess.Popen[bytes]
    seeds: list[int]
    running: int | None = None
    text: str | None = None
    since: float = field(default_factory=time.monotonic)
    rest: bytes = b""

    def lines(self) -> Iterator[dict[str, Any]] | None:
        """The lines that it has said since; None once nothing more comes."""
        assert self.process.stdout is not None
        data = self.process.stdout.read1()  # type: ignore[attr-defined]
        if not data:
            return None
        # The last piece may be half a line.
        *whole, self.rest = (self.rest + data).split(b"\n")
        return map(json.loads, whole)


class Parent:
    """The running children, and the seeds that are still to be given out."""

    def __init__(self, findings: Findings, seeds: Iterator[int], limit: float, log: Log) -> None:
        self.findings, self.limit, self.log = findings, limit, log
        self.seeds = seeds
        self.given_out = False
        self.selector = selectors.DefaultSelector()
        self.children: list[Child] = []

    def start(self, seeds: list[int] | None = None) -> None:
        """A child for the next seeds, or for those that one which died had not come to."""
        if seeds is None:
            seeds = list(itertools.islice(self.seeds, BATCH))
            self.given_out = not seeds
        if not seeds:
            return
        command = [sys.executable, "-m", "search.worker", self.findings.backend, ",".join(map(str, seeds))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
        child = Child(process, seeds)
        self.children.append(child)
        self.selector.register(child.process.stdout, selectors.EVENT_READ, child)  # type: ignore[arg-type]

    def step(self) -> None:
        """Reads what children said, and ends those that hang."""
        for key, _ in self.selector.select(timeout=1.0):
            self.read(key.data)
        for child in list(self.children):
            if child.running is not None and time.monotonic() - child.since > self.limit:
                child.process.kill()
                child.process.wait()
                self.lost(child, f"hangs: no end after {self.limit:.0f} s")

    def read(self, child: Child) -> None:
        """Takes the lines of a child, or notices its end."""
        lines = child.lines()
        if lines is None:
            # Its output has ended.  In the middle of a program that was its end, too.
            status = child.process.wait()
            self.lost(child, f"died: exit status {status}") if child.running is not None else self.forget(child)
            return
        for line in lines:
            # The time that is measured is that of one step, not of all programs.
            child.since = time.monotonic()
            if "start" in line:
                child.running, child.text = line["start"], None
            elif "made" in line:
                child.text = line["made"]
            else:
                self.log.write({**line, "text": child.text if line["signature"] else ""})
                self.findings.told(line, child.text or "")
                child.running = None

    def lost(self, child: Child, how: str) -> None:
        """Takes a child that died or was ended, and has another one go on behind the program that did it.  One that
        ended in eager, while statements were tried or where the program runs without us, too, found an end of torch's
        own, which is counted apart."""
        seed = child.running
        assert seed is not None
        line = {"seed": seed, "raised": False, "graphs": 0, "signature": how.split(":")[0], "difference": how}
        if child.text is None or (how.startswith("died") and ends_in_eager(child.text, self.limit)):
            line = {"seed": seed, "unmade": how}
        self.log.write(line)
        self.findings.told(line, child.text or "")
        self.forget(child)
        self.start(child.seeds[child.seeds.index(seed) + 1 :])

    def forget(self, child: Child) -> None:
        self.selector.unregister(child.process.stdout)  # type: ignore[arg-type]
        child.process.stdout.close()  # type: ignore[union-attr]
        self.children.remove(child)

    def stop(self) -> None:
        for child in self.children:
            child.process.kill()
            child.process.wait()


class Log:
    """A file with a line for each program that ran, which tells the next run where to go on."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path and path.exists() else ()
        self.done: dict[int, dict[str, Any]] = {line["seed"]: line for line in map(json.loads, lines)}

    def write(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({name: value for name, value in line.items() if value}) + "\n")


def run(
    findings: Findings, first: int, count: int, seconds: float | None, jobs: int, limit: float, path: Path | None
) -> None:
    """Searches with so many processes at a time, until seeds or time run out."""
    log = Log(path)
    # A search that goes on counts what an earlier one found.
    for seed, line in log.done.items():
        if first <= seed < first + count:
            findings.counted(line)
    parent = Parent(findings, (seed for seed in range(first, first + count) if seed not in log.done), limit, log)
    end = time.monotonic() + (seconds if seconds is not None else float("inf"))
    told = time.monotonic()
    try:
        while time.monotonic() < end:
            findings.poll()
            # Making programs small takes processes, too.
            while len(parent.children) + len(findings.shrinking) < jobs and not parent.given_out:
                parent.start()
            if not parent.children and parent.given_out:
                break
            parent.step()
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(findings.summary(), flush=True)
    finally:
        parent.stop()
        findings.finish()
