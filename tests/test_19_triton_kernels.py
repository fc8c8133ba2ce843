"""Triton kernels of the program's own, within its graphs: ``programs/triton_kernels.py`` under Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.usefixtures("triton_interpreter")
def test_programs_with_triton_kernels():
    """In a process of its own: the interpreter is chosen when Triton is imported."""
    programs = Path(__file__).parent / "programs" / "triton_kernels.py"
    env = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(programs)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
