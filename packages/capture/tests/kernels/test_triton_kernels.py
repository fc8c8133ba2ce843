"""Triton kernels of the user's in captured code: operators of the graph, as ``programs_with_kernels.py`` shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import capture
from capture.operators.triton_kernels.writes import Unfollowed, parameters, reach


def test_programs_that_start_kernels():
    """In a process of its own: Triton's interpreter is chosen when Triton is imported."""
    pytest.importorskip("triton", reason="the kernels are Triton's")
    programs = Path(__file__).with_name("programs_with_kernels.py")
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(programs)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


def test_capture_does_not_import_triton():
    """Torch may, once fake tensors run."""
    program = "import sys, torch, capture; capture.optimize('eager')(abs); print('triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.fixture(scope="module")
def kernels():
    pytest.importorskip("triton", reason="the kernels are Triton's")
    import kernels_that_write

    return kernels_that_write


def test_what_a_kernel_writes_is_read_off_its_text(kernels):
    for name, kernel in kernels.KERNELS.items():
        pointers = {each for each in parameters(kernel.fn) if each[0] in "rw"}
        found = reach(kernel.fn, kernel.src)
        assert found.written & pointers == {each for each in pointers if each[0] == "w"}, name
        assert not found.types & pointers, name


def test_what_cannot_be_followed_is_not_judged(kernels):
    names = ("address_from_memory", "cast_to_a_type_from_outside", "stored_by_assembly", "by_itself", "strange")
    for kernel in (getattr(kernels, name) for name in names):
        with pytest.raises(Unfollowed):
            reach(kernel.fn, None)
    assert reach(kernels.cast_like_a_pointer.fn, None).types == {"value"}


def test_a_break_tells_why(kernels):
    compiled = capture.optimize("eager")(lambda x: kernels.address_from_memory[(1,)](x, x))
    capture.reset()
    with pytest.raises(Exception):  # no GPU, or an address that is none
        compiled(torch.ones(2))
    reasons = [record.reason for record in capture.records() if isinstance(record, capture.BreakRecord)]
    assert "nobody can say what it writes to" in reasons[0].explanation
