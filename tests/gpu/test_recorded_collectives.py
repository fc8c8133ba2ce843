"""Collectives of NCCL within recorded graphs: two processes, a GPU each."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import cudagraphs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        torch.cuda.device_count() < 2 or not dist.is_nccl_available(), reason="needs two CUDA devices and NCCL"
    ),
]


def test_each_replay_takes_part_in_the_collective(tmp_path):
    parts = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(tmp_path / "meeting")],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        told = [part.communicate(timeout=120)[0] for part in parts]
    finally:
        for part in parts:
            part.kill()
    assert [part.returncode for part in parts] == [0, 0], "\n".join(told)
    assert ["7 replays" in text for text in told] == [True, True], "\n".join(told)


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(cudagraphs.__file__).parents[1]), *sys.path])}


def take_part(rank, meeting):
    """Sums and gathers what both ranks computed, with other numbers at every call."""
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=f"file://{meeting}", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )

    def exchange(x):
        total, parts = x * 2, x.new_empty(2 * len(x))
        dist.all_reduce(total)
        dist.all_gather_into_tensor(parts, x + rank)
        return total + 1, parts

    graphed = cudagraphs.capture(exchange, [torch.zeros(4, device="cuda")], options=cudagraphs.Options(gain_samples=0))
    with torch.no_grad():
        for n in range(10):
            total, parts = graphed(torch.full((4,), float(n + 10 * rank), device="cuda"))
            cudagraphs.poison()
            assert total.tolist() == [2.0 * (n + n + 10) + 1] * 4
            assert parts.tolist() == [float(n)] * 4 + [n + 11.0] * 4
    report = cudagraphs.report()
    print(report)
    assert (report.replayed, report.refusals) == (7, ())  # three calls warm up
    del graphed
    cudagraphs.reset()  # a communicator is kept by the graphs that use it
    dist.destroy_process_group()


if __name__ == "__main__":
    take_part(int(sys.argv[1]), sys.argv[2])
