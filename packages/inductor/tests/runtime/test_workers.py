"""Processes that compile Triton kernels: how many, what they know, and how they end."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inductor import triton_workers
from inductor.codegen.triton import HEADER
from inductor.runtime import compile_worker
from inductor.runtime.compile_worker import Request
from inductor.triton_workers import compile_all, worker_count

KERNEL = """

@triton.jit
def doubled(in0, out0, XBLOCK: tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out0 + at, tanh_of_single(tl.load(in0 + at)))
"""


@pytest.fixture
def request_for(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    (tmp_path / "doubled.py").write_text(HEADER + KERNEL)
    signature = {"in0": "*fp32", "out0": "*fp32", "XBLOCK": "constexpr"}
    return lambda name="doubled": Request(
        str(tmp_path / "doubled.py"), name, signature, {"XBLOCK": 128}, 2, 90, {"num_warps": 4}
    )


class Job:
    """A job that remembers who did it."""

    def __init__(self, request=None, done="nobody"):
        self.asked, self.done = request, done

    def request(self):
        return self.asked

    def compile_here(self):
        time.sleep(0.01)
        self.done = "here"

    def take(self, header, code):
        self.done = (header["entry"], header["warps"], code[:4])


@pytest.mark.parametrize(
    ("jobs", "processors", "count"), [(3, 16, 0), (11, 16, 0), (12, 16, 2), (300, 16, 15), (300, 1, 0)]
)
def test_few_kernels_start_no_process(jobs, processors, count):
    assert worker_count(jobs, processors) == count


def test_a_process_compiles_what_it_is_asked(request_for):
    waiting = triton_workers.queue.SimpleQueue()
    jobs = [Job(request_for()), Job(request_for("no such kernel")), Job(request_for())]
    for job in jobs:
        waiting.put(job)
    worker = triton_workers._started()
    worker.drain(waiting)
    worker.end()
    assert [job.done for job in jobs] == [("doubled", 4, b"\x7fELF"), "nobody", ("doubled", 4, b"\x7fELF")]


def test_every_job_is_done_though_processes_fail(monkeypatch):
    monkeypatch.setattr(compile_worker, "__file__", "/no/such/script.py")
    jobs = [Job() for _ in range(40)]
    compile_all(jobs, 4)
    assert {job.done for job in jobs} == {"here"}


def test_a_process_that_is_not_wanted_any_more_is_gone():
    jobs, started, make = [Job() for _ in range(12)], [], triton_workers._started
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_workers, "_started", lambda: started.append(make()) or started[-1])
        compile_all(jobs, 4)
    assert len(started) == 2
    assert all(worker.process.poll() is not None for worker in started)


ALONE = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("worker", sys.argv[1])
worker = sys.modules["worker"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
worker._stand_alone()
signature = {"in0": "*fp32", "out0": "*fp32", "XBLOCK": "constexpr"}
worker.compiled(worker.Request(sys.argv[2], "doubled", signature, {"XBLOCK": 128}, 2, 90, {"num_warps": 4}))
print("torch" in sys.modules, "inductor.api" in sys.modules)
"""


def test_a_process_waits_for_neither_torch_nor_its_own_package(request_for):
    command = [sys.executable, "-c", ALONE, compile_worker.__file__, request_for().file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr[-2000:]


PARENT = """
import time
from inductor import triton_workers
worker = triton_workers._started()
assert worker.replies.readline()
print(worker.process.pid, flush=True)
time.sleep(600)
"""


def test_a_process_ends_with_its_parent(request_for):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=env) as parent:
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    for _ in range(100):
        if not _is_running(pid):
            return
        time.sleep(0.1)
    pytest.fail("it is still there")


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
