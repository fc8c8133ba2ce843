"""Numbers of eight bits: kernels on GPUs read them into single precision; what is stored torch rounds."""

import pytest
import torch
from compiled import gpu_program_of
from simulated import INTERPRETED, simulated
from torch._subclasses.fake_tensor import FakeTensorMode

import inductor
from inductor.codegen.triton import HEADER, print_kernel
from inductor.decompose import prepare
from inductor.ir.program import Call, Launch
from inductor.lower import lower
from inductor.runtime import compile_worker
from inductor.schedule import schedule
from inductor.schedule.layouts import with_layout
from inductor.triton_launch import request_of

EIGHTHS = [torch.float8_e4m3fn, torch.float8_e5m2]
GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def every_number(dtype):
    """All 256; under the interpreter those that it can read, which are the finite ones."""
    numbers = torch.arange(256, dtype=torch.uint8).view(dtype)
    return numbers[numbers.float().isfinite()] if INTERPRETED else numbers


def widened(x):
    return x.float() * 3 + 1, x.to(torch.bfloat16)


@pytest.mark.parametrize("dtype", EIGHTHS)
@pytest.mark.parametrize("device", ["pretended", pytest.param("cuda", marks=GPU)])
def test_every_number_is_read_as_torch_reads_it(dtype, device):
    x = every_number(dtype)
    if device == "cuda":
        found = inductor.compile(torch.fx.symbolic_trace(widened), [x.cuda()])(x.cuda())
    else:
        found = simulated(widened, [x])(x)
    for ours, theirs in zip(found, widened(x), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=0, atol=0, equal_nan=True)


def program_of(function, dtype):
    with FakeTensorMode(), torch.no_grad():
        x = torch.empty(512, 512, device="cuda", dtype=dtype)
        gm = torch.fx.experimental.proxy_tensor.make_fx(function)(x)
    return schedule(lower(prepare(gm, [x]), [x]))


@pytest.mark.parametrize("dtype", EIGHTHS)
def test_what_follows_a_conversion_is_in_its_kernel(dtype, tmp_path, monkeypatch):
    pytest.importorskip("triton")
    (launch,) = (step for step in program_of(lambda x: (x.float() * 2).exp(), dtype).steps if isinstance(step, Launch))
    printed = print_kernel(with_layout(launch.kernel))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    (tmp_path / "kernels.py").write_text(HEADER + printed.text)
    if not INTERPRETED:
        request = request_of(printed, tmp_path / "kernels.py", 90, aligned=True)
        assert compile_worker.compiled(request).asm["cubin"]


def test_other_operators_are_torch_s():
    program = gpu_program_of(lambda x: x.relu().to(torch.float8_e4m3fn).view(torch.uint8), (64, 64))
    assert [str(step.target) for step in program.steps if isinstance(step, Call)] == [
        "aten._to_copy.default", "aten.view.dtype",
    ]  # fmt: skip
