"""Parallel compilation of Triton kernels: threads begin at once, processes join them as soon as they have started.

Triton's compiler holds Python's lock for a third of its time, so threads alone give three times the speed of one, on
however many processors.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias

from inductor import costs
from inductor.runtime import compile_worker
from inductor.runtime.compile_worker import READY, Request


class Job(Protocol):
    """A kernel to compile: in this process, or by its request in another, whose reply it takes."""

    def request(self) -> Request: ...
    def compile_here(self) -> None: ...
    def take(self, header: dict[str, Any], code: bytes) -> None: ...


Waiting: TypeAlias = "queue.SimpleQueue[Job]"


def compile_all(jobs: Sequence[Job], processors: int) -> None:
    """Compiles every job once.  One that fails is left undone: it fails again, with its own error, where the kernel is
    needed."""
    waiting: Waiting = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    workers = [worker for _ in range(worker_count(len(jobs), processors)) if (worker := _started()) is not None]
    threads = max(
        1, min(len(jobs), processors, costs.GPU.compiler_threads if workers else 2 * costs.GPU.compiler_threads)
    )
    with ThreadPoolExecutor(threads + len(workers)) as pool:
        there = [pool.submit(worker.drain, waiting) for worker in workers]
        # Threads come to an end when no jobs wait; a process that has not started by then would find none, and is
        # stopped.
        for future in [pool.submit(_drain, waiting) for _ in range(threads)]:
            future.result()
        for worker in workers:
            worker.no_more()
        for future in there:
            future.result()
    for worker in workers:
        worker.end()


def worker_count(jobs: int, processors: int) -> int:
    """The number of processes to start: none for few jobs, which threads have done before a process is ready."""
    return (
        min(costs.GPU.compiler_processes, processors - 1, jobs // costs.GPU.jobs_per_process)
        if jobs >= 2 * costs.GPU.jobs_per_process
        else 0
    )


def _waiting(jobs: Waiting) -> Iterator[Job]:
    """The jobs in the queue, until it is empty."""
    while True:
        try:
            yield jobs.get_nowait()
        except queue.Empty:
            return


def _drain(jobs: Waiting) -> None:
    for job in _waiting(jobs):
        job.compile_here()


class _Worker:
    """A process that compiles; it holds no GPU, and ends when its input does."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.requests, self.replies = process, process.stdin, process.stdout
        self.ready = False

    def drain(self, jobs: Waiting) -> None:
        """Compiles jobs once the process is ready; it never is, where nothing waits any more or it cannot start."""
        self.ready = self.replies.readline() == READY
        if not self.ready:
            return
        for job in _waiting(jobs):
            try:
                self.requests.write(job.request().line())
                self.requests.flush()
                header = json.loads(self.replies.readline())
                code = self.replies.read(header.pop("bytes"))
            except (OSError, ValueError):  # the process has died; what it was at is left undone
                return
            if "error" not in header:
                job.take(header, code)

    def no_more(self) -> None:
        """Kills a process that has not started yet, now that no jobs wait."""
        if not self.ready:
            self.process.kill()

    def end(self) -> None:
        with contextlib.suppress(OSError):  # it may have died with something unsent
            self.requests.close()
        self.replies.close()
        self.process.wait()


def _started() -> _Worker | None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, compile_worker.__file__]
    try:
        pipe = subprocess.PIPE
        return _Worker(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment))
    except OSError:  # threads do it all then
        return None
