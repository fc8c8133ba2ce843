"""Torch's kernels that are asked what they take write to no memory but what they are given."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys, warnings, torch, compile_api
import torch.nn.functional as F

warnings.simplefilter("error")
dims, call = int(sys.argv[1]), eval(sys.argv[2])
for _ in range(12):
    compile_api.reset()
    compiled = compile_api.compile(lambda x: call(x) * 2, backend="aot_eager")
    for batch, channels in ((4, 3), (2, 3), (2, 5), (6, 3)):
        x = torch.randn(batch, channels, *[1] * dims, dtype=torch.float64, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad.eq(2).all()
"""
POOLS = [
    (dims, f"lambda x: F.{pool}")
    for dims in (1, 2, 3)
    for pool in (f"max_pool{dims}d(x, 1)", f"adaptive_max_pool{dims}d(x, 1)")
]


@pytest.mark.parametrize(("dims", "call"), POOLS)
def test_pooling_of_single_elements_goes_back(dims, call):
    env = {**os.environ, "MALLOC_CHECK_": "3"}  # the allocator looks at what is around
    command = [sys.executable, "-c", PROGRAM, str(dims), call]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-500:]
