"""Triton without a GPU: every kernel under its interpreter, the text of two kernels, and a compilation for sm_90."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from inductor.codegen.triton import HEADER, print_kernel
from inductor.ir.expr import Const, Load, Result, apply, cast
from inductor.ir.index import Index, loop_variable
from inductor.ir.kernel import Argument, Kernel, Loop, Reduce, Store

F32, BF16 = torch.float32, torch.bfloat16


def kernel(name, axes, loops, **arguments):
    made = tuple(Argument(label, dtype, Index.of(numel), role) for label, (dtype, numel, role) in arguments.items())
    return Kernel(
        name, "cuda", axes, tuple(Loop(tuple(over), tuple(body)) for over, body in loops), made, (), ("test",)
    )


def scaled():
    i = loop_variable("i0", 5000)
    value = apply("mul", cast(Load("in0", Index.of(i), BF16), F32), Const(0.5, F32))
    return kernel("scaled", (i,), [((), [Store("out0", Index.of(i), value)])],
                  in0=(BF16, 5000, "in"), out0=(BF16, 5000, "out"))  # fmt: skip


def normalised(columns):
    i, r = loop_variable("i0", 128), loop_variable("r0", columns)
    at = Index.of(i) * columns + Index.of(r)
    x = Load("in0", at, F32)
    return kernel("normalised", (i,), [((r,), [Reduce("v0", "sum", x, F32)]),
                                       ((r,), [Store("out0", at, apply("div", x, Result("v0", F32)))])],
                  in0=(F32, 128 * columns, "in"), out0=(F32, 128 * columns, "out"))  # fmt: skip


POINTWISE = """\
@triton.jit
def scaled(in0, out0, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    # test
    x_index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    x_inside = x_index < 5000
    i0 = x_index
    x0 = tl.load(in0 + i0, x_inside)
    tl.store(out0 + i0, (x0.to(tl.float32) * 0.5).to(tl.bfloat16), x_inside)
"""

IN_REGISTERS = """\
@triton.jit
def normalised(in0, out0, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    # test
    x_index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    x_inside = x_index < 128
    i0 = x_index
    r_index = tl.arange(0, RBLOCK)[None, :]
    inside = x_inside & (r_index < 100)
    r0 = r_index
    v0_all = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    x0 = tl.load(in0 + 100 * i0 + r0, inside)
    v0_all = tl.where(inside, v0_all + x0, v0_all)
    v0 = sum_along(v0_all)
    tl.store(out0 + 100 * i0 + r0, tl.div_rn(x0, v0), inside)
"""


def test_text_of_a_pointwise_kernel():
    assert print_kernel(scaled()).text == POINTWISE


def test_a_row_that_fits_is_read_once():
    assert print_kernel(normalised(100)).text == IN_REGISTERS


def test_a_long_row_is_read_in_two_passes():
    text = print_kernel(normalised(100_000)).text
    assert text.count("for r_start in range(0, 100000, RBLOCK):") == 2
    assert text.count("tl.load") == 2


def test_every_kernel_runs_under_the_interpreter():
    """The tests of the C++ kernels once more, as Triton; a process of its own because Triton decides at import."""
    pytest.importorskip("triton")
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    tests = Path(__file__).with_name("test_kernels.py")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(command, env=env, cwd=tests.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


_COMPILE = """
import importlib.util, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
spec = importlib.util.spec_from_file_location("kernels", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
for name, types, x, r in (("scaled", ("*bf16", "*bf16"), 1024, 1), ("normalised", ("*fp32", "*fp32"), 16, 128)):
    signature = {"in0": types[0], "out0": types[1], "XBLOCK": "constexpr", "RBLOCK": "constexpr"}
    source = ASTSource(fn=getattr(module, name), signature=signature, constexprs={"XBLOCK": x, "RBLOCK": r})
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
"""


def test_kernels_compile_for_a_gpu_that_is_not_here(tmp_path):
    pytest.importorskip("triton")
    path = tmp_path / "kernels.py"
    path.write_text(HEADER + "\n\n" + print_kernel(scaled()).text + "\n\n" + print_kernel(normalised(100)).text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _COMPILE, str(path)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
