"""Products of matrices as kernels of ours: what goes into one, what is printed, and how one is chosen."""

import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from inductor import costs, pipeline, triton_launch, triton_products, triton_tune
from inductor.cache import Cache
from inductor.codegen.triton import print_kernel
from inductor.decompose import prepare
from inductor.ir.layout import Tiling
from inductor.ir.program import Call, Launch
from inductor.ir.verify import verify_program
from inductor.lower import lower
from inductor.options import Options
from inductor.schedule import program_of, work_of
from inductor.schedule.kernels import with_own_names
from inductor.schedule.layouts import with_layout
from inductor.schedule.products import alternatives
from inductor.triton_products import reworked


@pytest.fixture(autouse=True)
def _tensor_cores_are_allowed():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def graph_of(function, *sizes, dtype=torch.bfloat16):
    with FakeTensorMode(), torch.no_grad():
        inputs = [torch.empty(size, dtype=dtype, device="cuda") for size in sizes]
        return lower(prepare(make_fx(function)(*inputs), inputs), inputs)


def found(function, *sizes, dtype=torch.bfloat16):
    """The graph of a function of tensors on a GPU, and the kernels that its products could be."""
    graph = graph_of(function, *sizes, dtype=dtype)
    return graph, list(alternatives(work_of(graph), graph))


def replaced(function, *sizes):
    """The program with every product done by a kernel of ours."""
    graph = graph_of(function, *sizes)
    work, taken, placed = work_of(graph), set(), {}
    for one in alternatives(work, graph):
        if taken.isdisjoint(one.replaced):
            taken.update(one.replaced)
            placed[max(one.replaced)] = [one.kernel]
    program = program_of(graph, reworked(work, taken, placed))
    verify_program(program)
    return program


def kinds(program):
    return [type(step) for step in program.steps if isinstance(step, Call | Launch)]


A, B, BIAS = (64, 128), (128, 96), (96,)


def test_what_is_behind_and_before_goes_in():
    program = replaced(lambda a, b, c: F.gelu((a * 2) @ b + c) * 3, A, B, BIAS)
    assert kinds(program) == [Launch]


def test_what_others_read_stays():
    program = replaced(lambda a, b: ((a @ b).sum(1), (a @ b).relu()), A, B)
    assert kinds(program) == [Launch, Launch]


def test_a_reduction_behind_stays():
    assert kinds(replaced(lambda a, b: (a @ b).softmax(1), A, B)) == [Launch, Launch]


def test_a_kernel_behind_two_products_goes_into_one():
    program = replaced(lambda a, b, c: (a @ b) + (c @ b), A, B, A)
    assert kinds(program) in ([Call, Launch], [Launch, Launch])


def test_one_network_of_many_layers_keeps_its_memory_in_order():
    def net(x, w, v):
        for _ in range(3):
            x = F.silu(x @ w) @ v + x
        return x

    assert kinds(replaced(net, A, (128, 256), (256, 128))) == [Launch] * 6


def test_full_precision_is_the_library_s_where_it_was_asked_for():
    torch.set_float32_matmul_precision("highest")
    assert found(lambda a, b: a @ b, A, B, dtype=torch.float32)[1] == []


PRINTED = """\
@triton.jit
def mm_mul_1(in0, in1, out0, YBLOCK: tl.constexpr, XBLOCK: tl.constexpr, KBLOCK: tl.constexpr):
    # mm, mul
    program = tl.program_id(0)
    y_place, x_place = in_groups(program, 1, 1, 8)
    x_index = x_place * XBLOCK + tl.arange(0, XBLOCK)[None, :]
    x_inside = x_index < 96
    y_index = y_place * YBLOCK + tl.arange(0, YBLOCK)[:, None]
    product = tl.zeros([YBLOCK, XBLOCK], tl.float32)
    for k_start in range(0, 128, KBLOCK):
        left_k = k_start + tl.arange(0, KBLOCK)[None, :]
        left = tl.load(in0 + left_k + 128 * y_index)
        right_k = k_start + tl.arange(0, KBLOCK)[:, None]
        right = tl.load(in1 + 96 * right_k + x_index, x_inside, 0.0)
        product = tl.dot(left, right, product)
    tl.store(out0 + x_index + 96 * y_index, (product * 0.5).to(tl.bfloat16), x_inside)
"""


def test_text_of_a_product():
    _, (one,) = found(lambda a, b: (a @ b) * 0.5, A, B)
    assert print_kernel(with_layout(with_own_names(one.kernel))).text == PRINTED


def test_every_cut_fits_the_kernel():
    graph, (one,) = found(lambda a, b: (a @ b).relu(), (64, 4096), (4096, 96))
    ways = list(triton_products.variants(one.kernel, graph, processors=132))
    assert {way.splits for way in ways} == {1, 2, 4, 8}
    assert all(way.tiling.rows <= 64 and way.tiling.columns <= 128 for way in ways)
    big, (one,) = found(lambda a, b: (a @ b).relu(), (4096, 1024), (1024, 4096))
    assert {way.tiling.persistent for way in triton_products.variants(one.kernel, big, processors=132)} == {None, 132}


def test_the_choice_is_kept(tmp_path, monkeypatch):
    graph, (one,) = found(lambda a, b: (a @ b).relu(), (64, 4096), (4096, 96))
    best = triton_products.variant(one.kernel, Tiling(64, 64, 64, 4, 4), 2, graph)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a device")
    for answer in (best, None):
        store = Cache(tmp_path / str(answer is None), 1 << 30)
        monkeypatch.setattr(triton_products, "_fastest", lambda *_, answer=answer: answer)
        assert triton_products._choice(one, [], graph, store) == answer
        monkeypatch.setattr(triton_products, "_fastest", None)
        assert triton_products._choice(one, [], graph, store) == answer


def in_a_process(tmp_path, *command, **variables):
    """Triton decides at import whether it interprets."""
    pytest.importorskip("triton")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TRITON_CACHE_DIR": str(tmp_path), **variables}
    done = subprocess.run(
        [sys.executable, *command], env=env, cwd=Path(__file__).parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.usefixtures("triton_interpreter")
def test_products_run_under_the_interpreter(tmp_path):
    file = str(Path(__file__).with_name("products_interpreted.py"))
    in_a_process(tmp_path, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", file, TRITON_INTERPRET="1")


_COMPILE = """
import sys
from pathlib import Path
from dataclasses import replace
from test_products import found
from inductor.cache import Cache
from inductor.codegen.triton import HEADER, print_kernel
from inductor.ir.layout import Tiling
from inductor.schedule.kernels import with_own_names
from inductor.schedule.layouts import with_layout
from inductor.triton_launch import compile_kernel
_, (one,) = found(lambda a, b, c: ((a * 2) @ b + c).relu(), (1024, 1024), (1024, 1024), (1024,))
for tiling in (Tiling(), Tiling(64, 128, 64, 4, 4, persistent=132)):
    kernel = replace(one.kernel, product=replace(one.kernel.product, tiling=tiling))
    printed = print_kernel(with_layout(with_own_names(kernel)))
    file = Cache(Path(sys.argv[1]), 1 << 30).keep_text(f"{tiling.rows}.py", HEADER + printed.text)
    assert compile_kernel(printed, file, 90).shared <= 227 << 10
"""


def test_products_compile_for_a_gpu_that_is_not_here(tmp_path):
    in_a_process(tmp_path, "-c", _COMPILE, str(tmp_path))


class PretendedDevice:
    """In the place of a GPU: kernels do nothing, calls run on the CPU, and times follow from what was started."""

    def __init__(self, monkeypatch, seconds):
        self.started, self.seconds = [], seconds
        properties = SimpleNamespace(multi_processor_count=132)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a device")
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
        monkeypatch.setattr(triton_products, "compile_in_workers", lambda kernels: None)
        monkeypatch.setattr(triton_products, "random_numbers", lambda numel, dtype: torch.randn(numel).to(dtype))
        monkeypatch.setattr(triton_products, "seconds", self.time)
        monkeypatch.setattr(triton_products.Loaded, "launcher", lambda loaded, _: partial(self.launch, loaded.printed))

    def launch(self, printed, stream, *addresses):
        assert len(addresses) == len(printed.kernel.arguments)
        self.started.append(printed)

    def time(self, run):
        self.started.clear()
        run()
        return self.seconds(self.started[: len(self.started) // costs.GPU.tuning_launches])


@pytest.mark.parametrize("fast", ["split-K", "persistent", "library"])
def test_the_fastest_way_is_taken(fast, tmp_path, monkeypatch):
    def seconds(started):
        tilings = [printed.shape.tiling for printed in started if printed.shape.tiling is not None]
        if fast == "library" or not tilings:
            return 1.0 if not tilings else 2.0
        wanted = len(started) == 2 if fast == "split-K" else tilings[0].persistent is not None
        return 0.5 if wanted else 2.0

    PretendedDevice(monkeypatch, seconds)
    rows, depth = (64, 2048) if fast == "split-K" else (2048, 128)
    graph = graph_of(lambda a, b, c: (torch.addmm(c, a, b)).relu(), (rows, depth), (depth, 1024), (1024,))
    work = work_of(graph)
    (one,) = alternatives(work, graph)
    found = triton_products._choice(one, work, graph, Cache(tmp_path, 1 << 30))
    assert (found is None) == (fast == "library")
    if found is not None:
        assert (found.splits > 1) == (fast == "split-K")
        assert (found.tiling.persistent is not None) == (fast == "persistent")


def test_what_was_faster_is_scheduled_printed_and_built_again(monkeypatch, tmp_path):
    """Both of the stage's choices, made without a device: a kernel in the place of the call, in another shape."""

    def choose(graph, work, options):
        (one,) = alternatives(work, graph)
        return graph, reworked(work, set(one.replaced), {max(one.replaced): [one.kernel]})

    def more_warps(kernels, devices, store):
        return [print_kernel(replace(made.kernel, layout=replace(made.shape, warps=16))) for made in kernels]

    monkeypatch.setattr(triton_products, "choose", choose)
    monkeypatch.setattr(triton_tune, "tuned", more_warps)
    monkeypatch.setattr(triton_launch, "load", lambda kernels, *_: ({made.kernel.name: print for made in kernels}, ""))
    with FakeTensorMode(), torch.no_grad():
        inputs = [torch.empty(size, dtype=torch.bfloat16, device="cuda") for size in (A, B)]
        gm = prepare(make_fx(lambda a, b: (a @ b).relu())(*inputs), inputs)
    work = pipeline.Work("g", gm, inputs, Options(max_autotune=True, cache_dir=str(tmp_path)))
    for stage in pipeline.STAGES:
        work = stage.run(work) if stage.name != "prepare" else work
        stage.verify(work)
    assert kinds(work.program) == [Launch]
    (launch,) = (item for item in work.program.items if isinstance(item, Launch))
    assert launch.kernel.shape.warps == 16
    assert f"{launch.kernel.name}(stream, " in work.wrapper.source
