"""Triton without a GPU: every kernel under its interpreter, the text of two kernels, and a compilation for sm_90."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from inductor import triton_launch, triton_tune
from inductor.cache import Cache
from inductor.codegen.triton import print_kernel
from inductor.codegen.wrapper import Kernels, print_wrapper
from inductor.ir.expr import Const, IndexValue, Load, Result, apply, cast
from inductor.ir.index import Index, loop_variable
from inductor.ir.kernel import Argument, Kernel, Loop, Reduce, Store
from inductor.ir.program import Allocate, Buffer, Launch, Program, Ref
from inductor.schedule.gpu import candidates
from inductor.schedule.kernels import with_own_names
from inductor.schedule.layouts import lay_out, with_layout
from inductor.schedule.together import combined

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


def turned(rows, columns):
    """x.t() + y: read along one axis, written along the other."""
    i, j = loop_variable("i0", rows), loop_variable("i1", columns)
    at, n = Index.of(i) * columns + Index.of(j), rows * columns
    value = apply("add", Load("in0", Index.of(j) * rows + Index.of(i), F32), Load("in1", at, F32))
    return kernel("turned", (i, j), [((), [Store("out0", at, value)])],
                  in0=(F32, n, "in"), in1=(F32, n, "in"), out0=(F32, n, "out"))  # fmt: skip


POINTWISE = """\
@triton.jit
def scaled(in0, out0, XBLOCK: tl.constexpr):
    # test
    x_index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    x_inside = x_index < 5000
    x0 = tl.load(in0 + x_index, x_inside)
    tl.store(out0 + x_index, (x0.to(tl.float32) * 0.5).to(tl.bfloat16), x_inside)
"""

IN_REGISTERS = """\
@triton.jit
def normalised(in0, out0, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    # test
    x_index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r_index = tl.arange(0, RBLOCK)[None, :]
    r_inside = r_index < 100
    v0_all = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    x0 = tl.load(in0 + r_index + 100 * x_index, r_inside)
    v0_all = tl.where(r_inside, v0_all + x0, v0_all)
    v0 = sum_along(v0_all)
    tl.store(out0 + r_index + 100 * x_index, tl.div_rn(x0, v0), r_inside)
"""

TILED = """\
@triton.jit
def turned(in0, in1, out0, YBLOCK: tl.constexpr, XBLOCK: tl.constexpr):
    # test
    program = tl.program_id(0)
    x_index = program % 7 * XBLOCK + tl.arange(0, XBLOCK)[None, :]
    x_inside = x_index < 200
    y_index = program // 7 * YBLOCK + tl.arange(0, YBLOCK)[:, None]
    y_inside = y_index < 100
    tile_inside = x_inside & y_inside
    x0 = tl.load(in0 + 100 * x_index + y_index, tile_inside)
    x1 = tl.load(in1 + x_index + 200 * y_index, tile_inside)
    tl.store(out0 + x_index + 200 * y_index, x0 + x1, tile_inside)
"""


def test_text_of_a_transpose():
    assert print_kernel(with_layout(turned(100, 200))).text == TILED


def test_text_of_a_pointwise_kernel():
    assert print_kernel(with_layout(scaled())).text == POINTWISE


def test_a_row_that_fits_is_read_once():
    assert print_kernel(with_layout(normalised(100))).text == IN_REGISTERS


def test_nothing_is_read_of_a_row_without_elements():
    text = print_kernel(with_layout(normalised(0))).text
    assert "r_inside = r_index < 0" in text
    assert "tl.load" not in text


def test_a_long_row_is_read_in_two_passes():
    text = print_kernel(with_layout(normalised(100_000))).text
    assert text.count("for r_start in range(0, 100000, RBLOCK):") == 2
    assert text.count("tl.load") == 2


INTERPRETED = (
    "test_kernels.py", "test_random_numbers.py", "test_sequences.py", "test_eight_bits.py", "test_host_numbers.py",
    "../schedule/test_together.py",
)  # fmt: skip


@pytest.mark.usefixtures("triton_interpreter")
def test_every_kernel_runs_under_the_interpreter():
    """The tests of the C++ kernels once more, as Triton; a process of its own because Triton decides at import."""
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    here = Path(__file__).parent
    tests = [str(here / name) for name in INTERPRETED]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, env=env, cwd=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


_COMPILE = """
import sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_triton import normalised, scaled, turned
from inductor.cache import Cache
from inductor.codegen.triton import HEADER, print_kernel
from inductor.triton_launch import Binary, compile_kernel
from inductor.schedule.kernels import with_own_names
from inductor.schedule.layouts import with_layout
from inductor.schedule.together import combined
for made in (scaled(), normalised(100), turned(100, 200), with_own_names(combined([scaled()] * 3))):
    printed = print_kernel(with_layout(made))
    file = Cache(Path(sys.argv[2]), 1 << 30).keep_text(f"{made.name}.py", HEADER + printed.text)
    for aligned in (True, False):
        binary = compile_kernel(printed, file, 90, aligned)
        assert (binary.entry, binary.warps) == (made.name, printed.shape.warps)
        assert Binary.unpack(binary.pack()) == binary
"""


def test_kernels_compile_for_a_gpu_that_is_not_here(tmp_path):
    pytest.importorskip("triton")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    command = [sys.executable, "-c", _COMPILE, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_what_is_in_the_cache_is_not_compiled_again(tmp_path, monkeypatch):
    printed, store = print_kernel(with_layout(scaled())), Cache(tmp_path, 1 << 30)
    made = triton_launch.Binary(b"code", "scaled", 4, 0)
    monkeypatch.setattr(triton_launch, "compile_kernel", lambda *_: made)
    assert triton_launch.binary_of(printed, tmp_path, store, 90, aligned=True) == made
    monkeypatch.setattr(triton_launch, "compile_kernel", None)
    assert triton_launch.binary_of(printed, tmp_path, store, 90, aligned=True) == made


def test_a_launch_names_its_stream_and_enters_its_device():
    gpu = torch.device("cuda", 1)
    made, size = scaled(), (Index.of(5000),)
    x, y = (Buffer(name, BF16, gpu, size, (Index.of(1),)) for name in "xy")
    program = Program("g", (x,), (), (Allocate(y), Launch(made, ("x", "y"))), (Ref("y"),))
    source = print_wrapper(lay_out(program, 64), Kernels({}, print, {"scaled": print}), {}).source
    assert "if current_gpu() != 1:" in source
    assert "scaled(stream, x.data_ptr(), y.data_ptr())" in source


def test_kernels_of_one_text_and_other_dtypes_are_compiled_apart(tmp_path, monkeypatch):
    store, compiled = Cache(tmp_path, 1 << 30), []
    binary = triton_launch.Binary(b"", "copied", 4, 0)
    monkeypatch.setattr(triton_launch, "compile_kernel", lambda *given: compiled.append(given) or binary)
    for dtype in (torch.float64, torch.int64):
        i = loop_variable("i0", 8)
        body = [Store("out0", Index.of(i), Load("in0", Index.of(i), dtype))]
        made = kernel("copied", (i,), [((), body)], in0=(dtype, 8, "in"), out0=(dtype, 8, "out"))
        triton_launch.binary_of(print_kernel(with_layout(made)), tmp_path, store, 90, aligned=True)
    assert len(compiled) == 2


def test_kernels_that_differ_in_name_alone_are_compiled_once(tmp_path, monkeypatch):
    store, compiled = Cache(tmp_path, 1 << 30), []
    binary = triton_launch.Binary(b"", "first", 4, 0)
    monkeypatch.setattr(triton_launch, "compile_kernel", lambda *given: compiled.append(given) or binary)
    for name, origin in (("first", "layer_1"), ("second", "layer_2")):
        made = replace(scaled(), name=name, origins=(origin,))
        assert triton_launch.binary_of(print_kernel(with_layout(made)), tmp_path, store, 90, aligned=True) == binary
    assert len(compiled) == 1


def picked():
    """Elements at positions that a tensor holds."""
    i, at = loop_variable("i0", 50), loop_variable("p0", 9)
    place = apply("wrapped", Load("in1", Index.of(i), torch.int64), IndexValue(Index.of(9), torch.int64))
    body = [Store("out0", Index.of(i), Load("in0", Index.of(at), BF16, ((at, place),)))]
    arguments = {"in0": (BF16, 9, "in"), "in1": (torch.int64, 50, "in"), "out0": (BF16, 50, "out")}
    return kernel("picked", (i,), [((), body)], **arguments)


@pytest.mark.parametrize("made", [picked, lambda: with_own_names(combined([scaled(), picked()]))])
def test_a_kernel_that_asserts_positions_says_so(made, tmp_path):
    plain, printed = (print_kernel(with_layout(each)) for each in (scaled(), made()))
    assert "wrap_index(" in printed.text
    assert (plain.checked, printed.checked) == (False, True)
    assert triton_launch.request_of(printed, tmp_path, 90, aligned=True).options["debug"]


# -- shapes tried out -------------------------------------------------------------------------------------------------


def timed_by(seconds, monkeypatch):
    """Shapes timed by a function of theirs in place of a device."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a device")
    monkeypatch.setattr(
        triton_tune, "timings", lambda printed, *_: {shape: seconds(shape) for shape in candidates(printed.shape)}
    )


def test_the_fastest_shape_is_taken_and_kept(tmp_path, monkeypatch):
    store, printed = Cache(tmp_path, 1 << 30), print_kernel(with_layout(turned(1000, 2000)))
    timed_by(lambda shape: abs(shape.constants["XBLOCK"] - 128) + shape.warps, monkeypatch)
    (best,) = triton_tune.tuned([printed], {"turned": 0}, store)
    assert best.shape.constants["XBLOCK"] == 128
    monkeypatch.setattr(triton_tune, "timings", None)
    assert triton_tune.tuned([printed], {"turned": 0}, store) == (best,)


def test_noise_does_not_change_a_shape(tmp_path, monkeypatch):
    printed = print_kernel(with_layout(turned(1000, 2000)))
    timed_by(lambda shape: 1.0 if shape == printed.shape else 0.99, monkeypatch)
    assert triton_tune.tuned([printed], {"turned": 0}, Cache(tmp_path, 1 << 30)) == (printed,)


def test_kernels_that_take_as_long_as_a_launch_are_not_timed():
    assert triton_tune.can_be_timed(print_kernel(with_layout(turned(1000, 2000))))
    assert not triton_tune.can_be_timed(print_kernel(with_layout(scaled())))


def test_a_row_in_registers_stays_there():
    shapes = candidates(print_kernel(with_layout(normalised(100))).shape)
    assert {shape.r for shape in shapes} == {128}
    assert len({shape.constants["XBLOCK"] for shape in shapes}) > 2
