"""Triton kernels of the user's in captured code: started as they are, one break each, compiled around."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import torch, triton, triton.language as tl
import capture

@triton.jit
def added(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)

def function(x, y):
    x = x * 2
    out = torch.empty_like(x)
    added[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out.relu() + 1

graphs = []
compiled = capture.optimize(lambda gm, inputs: graphs.append(gm) or gm.forward)(function)
for _ in range(2):
    x, y = torch.randn(300), torch.randn(300)
    assert torch.equal(compiled(x, y), function(x, y))
assert len(graphs) == 2, graphs
found = [record for record in capture.records() if isinstance(record, capture.BreakRecord)]
assert [record.reason.kind for record in found] == ["triton"], found
"""


def test_a_kernel_of_the_user_s_is_started_as_it_is(tmp_path):
    """In a process of its own: Triton's interpreter is chosen when Triton is imported."""
    pytest.importorskip("triton")
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
