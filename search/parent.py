"""Gives ranges of seeds to child processes, reads what they say, and notices those that die or hang."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from search.findings import Findings

BATCH = 400
"""Programs of one process: few enough that what processes gather costs nothing, many for the start of one."""


@dataclass(slots=True)
class Child:
    """A process and the seeds that it has before it."""

    process: subprocess.Popen[bytes]
    last: int
    running: int | None = None
    since: float = field(default_factory=time.monotonic)
    rest: bytes = b""

    def lines(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        *whole, self.rest = (self.rest + self.process.stdout.read1()).split(b"\n")  # type: ignore[attr-defined]
        yield from map(json.loads, whole)


class Parent:
    """The running children, and which seeds are still to be given out."""

    def __init__(self, findings: Findings, first: int, count: int, limit: float, log: Log) -> None:
        self.findings, self.limit, self.log = findings, limit, log
        self.next, self.end = first, first + count
        self.selector = selectors.DefaultSelector()
        self.children: list[Child] = []

    def start(self, first: int | None = None, last: int | None = None) -> None:
        """A child for the next seeds, or for those that one which died had not come to."""
        if first is None or last is None:
            first, last = self.next, min(self.next + BATCH, self.end)
            self.next = last
        if first >= last:
            return
        command = [sys.executable, "-m", "search.worker", self.findings.backend, f"{first}:{last}"]
        child = Child(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL), last)
        self.children.append(child)
        self.selector.register(child.process.stdout, selectors.EVENT_READ, child)  # type: ignore[arg-type]

    def step(self) -> None:
        for key, _ in self.selector.select(timeout=1.0):
            self.read(key.data)
        for child in list(self.children):
            if child.running is not None and time.monotonic() - child.since > self.limit:
                child.process.kill()
                child.process.wait()
                self.lost(child, f"hangs: no end after {self.limit:.0f} s")

    def read(self, child: Child) -> None:
        for line in child.lines():
            child.since = time.monotonic()
            if "start" in line:
                child.running = line["start"]
                continue
            child.running = None
            self.log.write(line)
            self.findings.told(line)
        if child.process.poll() is not None and not child.rest:
            self.drain(child)

    def drain(self, child: Child) -> None:
        """The end of a child: what it still said, then whether it came to the end of its seeds."""
        tail = child.process.stdout.read() if child.process.stdout else b""
        if tail:
            child.rest += tail
            for line in map(json.loads, filter(None, child.rest.split(b"\n"))):
                child.running = line.get("start")
                if child.running is None:
                    self.log.write(line)
                    self.findings.told(line)
            child.rest = b""
        if child.running is not None:
            self.lost(child, f"died: exit status {child.process.returncode}")
        else:
            self.forget(child)

    def lost(self, child: Child, how: str) -> None:
        seed = child.running
        assert seed is not None
        line = {"seed": seed, "raised": False, "graphs": 0, "call": 0, "signature": how.split(":")[0], "difference": how}
        self.log.write(line)
        self.findings.told(line)
        self.forget(child)
        self.start(seed + 1, child.last)

    def forget(self, child: Child) -> None:
        self.selector.unregister(child.process.stdout)  # type: ignore[arg-type]
        self.children.remove(child)

    def stop(self) -> None:
        for child in self.children:
            child.process.kill()
            child.process.wait()


class Log:
    """A file with a line for each program that ran, which tells the next run where to go on."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.done = {json.loads(line)["seed"] for line in path.read_text().splitlines()} if path and path.exists() else set()

    def write(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({name: value for name, value in line.items() if value}) + "\n")


def run(
    findings: Findings, seed: int, count: int, seconds: float | None, jobs: int, limit: float, path: Path | None
) -> None:
    log = Log(path)
    done = len([one for one in log.done if seed <= one < seed + count])
    parent = Parent(findings, seed + done, count - done, limit, log)
    end = time.monotonic() + (seconds if seconds is not None else float("inf"))
    told = time.monotonic()
    try:
        while time.monotonic() < end:
            findings.poll()
            while len(parent.children) + len(findings.shrinking) < jobs and parent.next < parent.end:
                parent.start()
            if not parent.children and parent.next >= parent.end:
                break
            parent.step()
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(findings.summary(), flush=True)
    finally:
        parent.stop()
        findings.finish()
