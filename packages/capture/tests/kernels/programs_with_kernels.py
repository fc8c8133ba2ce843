"""Programs that start Triton kernels of their own, against themselves uncaptured.

Run by ``test_triton_kernels.py`` in a process of its own: Triton's interpreter is chosen when Triton is imported.
"""

import itertools
import threading

import pytest
import torch
import triton
import triton.language as tl
from torch._subclasses.fake_tensor import FakeTensorMode

import capture
from capture.operators.triton_kernels.traces import apply_traced


@triton.jit
def added(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def doubled(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)


@triton.jit
def scaled(x, n, factor, ROUND: tl.constexpr, TYPE: tl.constexpr, NAME: tl.constexpr, BLOCK: tl.constexpr = 64):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n).to(TYPE) * factor
    if ROUND and NAME == "down":
        value = tl.floor(value)
    tl.store(x + at, value, at < n)


@pytest.fixture
def same_as_plain():
    """Captures, compares three calls with the plain function, and gives the graphs and the reasons of breaks."""

    def check(function, *sizes, breaks=0):
        graphs = []
        capture.reset()
        compiled = capture.optimize(lambda gm, inputs: graphs.append(gm) or gm.forward)(function)
        for size in sizes or (300, 300):
            inputs = [torch.randn(size), torch.randn(size)]
            theirs, ours = [[x.clone() for x in inputs] for _ in range(2)]
            torch.testing.assert_close(compiled(*ours), function(*theirs), rtol=0, atol=0)
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
        found = [record for record in capture.records() if isinstance(record, capture.BreakRecord)]
        assert len(found) == breaks, found
        assert breaks or len({str(gm.code) for gm in graphs}) == len(graphs)
        return graphs, [record.reason for record in found]

    return check


def test_a_kernel_is_an_operator_of_the_graph(same_as_plain):
    def function(x, y):
        x = x * 2
        out = torch.empty_like(x)
        added[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
        return out.relu() + 1

    ((graph,), _) = same_as_plain(function)
    (started,) = (node for node in graph.graph.nodes if getattr(node.target, "namespace", "") == "triton_kernels")
    assert [argument.alias_info is not None for argument in started.target._schema.arguments[:3]] == [
        False,
        False,
        True,
    ]


def test_a_grid_may_be_a_function_of_the_meta_parameters_and_sizes_may_vary(same_as_plain):
    def function(x, y):
        out = torch.empty_like(x)
        added[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]), 1)](x, y, out, x.numel(), BLOCK=128)
        return out

    graphs, _ = same_as_plain(function, 300, 301, 1000)
    assert len(graphs) == 2


def test_constants_of_every_kind(same_as_plain):
    def function(x, y):
        scaled[(5,)](x, 300, 1.5, True, tl.float32, "down")
        scaled[(5,)](y, n=x.numel(), factor=2, ROUND=False, TYPE=tl.float32, NAME="up", BLOCK=64, num_warps=2)
        return x + y

    same_as_plain(function)


@pytest.mark.parametrize("kind", ["given", "read", "computed"])
def test_floats_that_only_the_run_knows(kind):
    numbers = {
        "given": lambda x, factor: factor,
        "read": lambda x, factor: x.max().item(),
        "computed": lambda x, factor: x.max().item() * 0.1 + factor,
    }

    def function(x, factor):
        out = x.clone()
        scaled[(1,)](out, 8, numbers[kind](x, factor), ROUND=False, TYPE=tl.float32, NAME="")
        return out + 1

    graphs = []
    capture.reset()
    compiled = capture.optimize(lambda gm, inputs: graphs.append(gm) or gm.forward)(function)
    for factor in (0.1, 0.7, 2.5, 3.25):
        x = torch.randn(8)
        assert torch.equal(compiled(x, factor), function(x, factor))
    assert len(graphs) == (1 if kind == "read" else 2)
    assert not [record for record in capture.records() if isinstance(record, capture.BreakRecord)]


def test_what_is_written_is_seen_by_whoever_reads_it_later_and_by_nobody_before(same_as_plain):
    def function(x, y):
        before = x + 1
        view = x[10:]
        doubled[(3,)](x, 20, BLOCK=16)
        middle = view * 1
        doubled[(1,)](view, 5, 16)
        return before, middle, x.view(10, -1), y

    same_as_plain(function)


def test_tensors_over_one_memory_stay_so_within_the_kernel(same_as_plain):
    def function(x, y):
        z = (x + y).reshape(20, -1)
        doubled[(1,)](z[:, 3:7], 20, BLOCK=32)
        added[(1,)](z, z[2:], z[4:], 32, BLOCK=32)
        added[(1,)](x, x, x, 32, BLOCK=32)
        return z

    same_as_plain(function)


def test_a_window_on_an_argument_that_is_written_is_left_to_cpython(same_as_plain):
    """What lies around the window belongs to somebody else, and the kernel might reach it."""

    def function(x, y):
        doubled[(1,)](x, 20, BLOCK=32)
        return x + y

    compiled = capture.optimize("eager")(function)
    capture.reset()
    for x in (torch.ones(350), torch.ones(400)[50:]):
        torch.testing.assert_close(compiled(x, torch.zeros(350))[:25], torch.tensor([2.0] * 20 + [1.0] * 5))
    assert [record.reason.kind for record in capture.records() if isinstance(record, capture.BreakRecord)] == ["triton"]


def test_arguments_that_share_memory_are_told_apart():
    def function(x, y):
        out = torch.zeros_like(x)
        added[(1,)](x, y[1:], out, 8, BLOCK=8)
        doubled[(1,)](x, 8, BLOCK=8)
        return out, y * 1

    capture.reset()
    compiled = capture.optimize("eager")(function)
    for apart in (True, False, True):
        results = []
        for run in (compiled, function):
            x = torch.arange(9.0)
            results.append((run(x, torch.ones(9) if apart else x), x))
        torch.testing.assert_close(*results)


def test_what_a_start_gives_back_is_what_triton_gives_back():
    def function(x, y):
        given = doubled[(1,)](y, 8, BLOCK=8)
        return (x + 1 if given is None else x + 2), y

    assert doubled[(1,)](torch.ones(8), 8, BLOCK=8) is None
    compiled = capture.optimize("eager")(function)
    assert torch.equal(compiled(torch.ones(8), torch.ones(8))[0], torch.full((8,), 2.0))


def test_a_kernel_is_known_by_identity():
    kernels = {"now": doubled}

    def function(x):
        kernels["now"][(1,)](x, 8, 8)
        return x + 1

    compiled = capture.optimize("eager")(function)
    assert torch.equal(compiled(torch.ones(8)), torch.full((8,), 3.0))
    kernels["now"] = triton.jit(doubled_twice)
    assert torch.equal(compiled(torch.ones(8)), torch.full((8,), 5.0))


def doubled_twice(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * 4)


def test_an_error_of_a_kernel_is_the_program_s():
    def function(x):
        doubled[(1,)](x * 1, 8, BLOCK=7)
        return x + 1

    with pytest.raises(Exception) as plain:
        function(torch.ones(8))
    with pytest.raises(type(plain.value)) as captured:
        capture.optimize("eager")(function)(torch.ones(8))
    assert str(captured.value) == str(plain.value)


def timings():
    """Stands for Triton's measurements, which need a GPU: the last configuration is the fastest."""
    times = itertools.count(0, -1)
    return lambda call, quantiles: (call(), [next(times)] * 3)[1]


@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"], do_bench=timings())
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def programs(out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    """How many programs there are, and whether all of them are full."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.num_programs(0) * 2 + EVEN, at < n)


def test_a_tuned_kernel_gets_the_grid_of_the_configuration_that_triton_settles_on(same_as_plain):
    def function(x, y):
        programs[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]) + meta["EVEN"],)](x, x.numel())
        programs[(3,)](y, 40)
        return x * y

    ((graph,), _) = same_as_plain(function, 320, 320)
    (tuned, fixed) = (node for node in graph.graph.nodes if getattr(node.target, "namespace", "") == "triton_kernels")
    assert (list(tuned.args[-1]), list(fixed.args[-1])) == ([11, 6], [3])


def test_a_configuration_that_nobody_knew_of_starts_the_frame_over():
    """Pruning may make configurations up; the grid for one of those is the program's to say."""

    def prune(configs, named_args, **kwargs):
        return [triton.Config({"BLOCK": 16}), *configs]

    times = itertools.count()  # the first is the fastest
    tuned = triton.autotune(
        [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"],
        prune_configs_by={"early_config_prune": prune}, do_bench=lambda call, quantiles: (call(), [next(times)] * 3)[1],
    )(programs.fn)  # fmt: skip

    def function(x):
        out = torch.empty_like(x)
        tuned[lambda meta: (triton.cdiv(out.numel(), meta["BLOCK"]),)](out, out.numel())
        return out + x

    compiled = capture.optimize("eager")(function)
    with pytest.warns(capture.CaptureWarning):
        assert torch.equal(compiled(torch.ones(64)), torch.full((64,), 10.0))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        doubled[(triton.cdiv(x.numel(), 64),)](x, x.numel(), BLOCK=64)
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        doubled[lambda meta: (triton.cdiv(grad.numel(), meta["BLOCK"]),)](grad, grad.numel(), BLOCK=64)
        return grad


def test_a_function_with_a_backward_of_its_own_starts_kernels():
    def function(x):
        return (Doubled.apply(x * 3).sin() ** 2).sum()

    graphs = []
    capture.reset()
    compiled = capture.optimize(lambda gm, inputs: graphs.append(gm) or gm.forward)(function)
    for size in (300, 300, 301):
        x, y = (torch.linspace(0, 1, size, requires_grad=True) for _ in range(2))
        compiled(x).backward()
        function(y).backward()
        assert torch.equal(x.grad, y.grad)
    assert len(graphs) == 2
    assert not [record for record in capture.records() if isinstance(record, capture.BreakRecord)]


class StartedByRun(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        doubled.run(grad, grad.numel(), BLOCK=64, grid=(1,), warmup=False)
        return grad


def test_a_start_by_another_name_does_not_get_tensors_without_data():
    with FakeTensorMode() as mode:
        x = mode.from_tensor(torch.ones(8).requires_grad_())
        with pytest.raises(RuntimeError, match="started by `run`"):
            apply_traced(StartedByRun, (x,)).sum().backward()
    x = torch.ones(8, requires_grad=True)
    capture.optimize("eager")(StartedByRun.apply)(x).sum().backward()
    assert torch.equal(x.grad, torch.full((8,), 2.0))


def test_kernels_of_other_threads_start_while_one_traces():
    """What lies in the way of ``kernel[grid]`` meanwhile lets tensors with data pass, and is gone afterwards."""
    original = triton.runtime.jit.KernelInterface.__getitem__
    real = torch.ones(8)

    class Tracing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert triton.runtime.jit.KernelInterface.__getitem__ is not original
            thread = threading.Thread(target=lambda: doubled[(1,)](real, 8, 8))
            thread.start()
            thread.join()
            return x * 2

    with FakeTensorMode() as mode:
        apply_traced(Tracing, (mode.from_tensor(torch.ones(8)),))
    assert torch.equal(real, torch.full((8,), 2.0))
    assert triton.runtime.jit.KernelInterface.__getitem__ is original


def test_a_start_by_other_names_is_a_break(same_as_plain):
    def function(x, y):
        doubled.run(x, 8, BLOCK=8, grid=(1,), warmup=False)
        return x + y

    _, (reason,) = same_as_plain(function, breaks=1)
    assert reason.kind == "triton"
