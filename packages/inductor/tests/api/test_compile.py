"""``inductor.compile`` from a function to results, against eager."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import inductor

CASES = {
    "pointwise chain": (lambda x, y: torch.tanh(x * y + 1).exp() - x.sigmoid(), (37, 65), (37, 65)),
    "broadcast": (lambda x, y: x * y[:, None] + y, (33, 33), (33,)),
    "softmax": (lambda x: x.softmax(-1), (17, 100)),
    "log_softmax over rows": (lambda x: x.log_softmax(0), (17, 100)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (100,), w, b), (8, 100), (100,), (100,)),
    "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v.abs()), (2, 5, 7, 9), (5,), (5,)),
    "sums": (lambda x: (x.sum(), x.sum(0), x.mean(1), x.var(0), x.amax(1), x.argmax(0)), (50, 40)),
    "large sum": (lambda x: x.sum(), (300, 999)),
    "transpose and add": (lambda x, y: x.t() + y, (30, 50), (50, 30)),
    "cat": (lambda x, y: torch.cat([x, y.exp()], 1), (5, 7), (5, 20)),
    "gelu mlp": (lambda x, w, v: F.gelu(x @ w) @ v, (9, 16), (16, 32), (32, 8)),
    "index": (lambda x: x[torch.tensor([3, 1, -1])] * 2, (8, 17)),
    "pad and pool": (lambda x: F.max_pool2d(F.pad(x, (1, 2, 3, 0)), 2), (2, 3, 9, 10)),
    "cumsum": (lambda x: (x * 2).cumsum(1), (5, 40)),
    "where and compare": (lambda x, y: torch.where(x > y, x, -y).clamp(-1, 0.5), (40, 3), (40, 3)),
    "conv bn relu": (lambda x, w: F.conv2d(x, w, padding=1).relu() + 1, (2, 3, 8, 8), (4, 3, 3, 3)),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (2, 4, 10, 8), (2, 4, 10, 8), (2, 4, 10, 8)),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (1, 2, 5, 5)),
    "no elements": (lambda x: (x + 1, x.sum(0)), (0, 5)),
    "one number": (lambda x: x * 2 + x.sin(), ()),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Empty at first; what starts the kernels, the largest of all that is built, is built once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _private_cache(cache, monkeypatch):
    monkeypatch.setenv("COMPILE_API_CACHE", str(cache))


@pytest.mark.parametrize("name", CASES)
def test_compiled_agrees_with_eager(name):
    function, *shapes = CASES[name]
    inputs = [torch.randn(shape) for shape in shapes]
    compiled = inductor.compile(make_fx(function)(*inputs), inputs, options={"fallback": False})
    expected = function(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for found, value in zip(compiled(*inputs), expected, strict=True):
        torch.testing.assert_close(found, value, check_stride=True, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_floats(dtype):
    torch.manual_seed(0)
    x, y = torch.randn(20, 50).to(dtype), torch.randn(50).to(dtype)

    def function(x, y):
        return (x * y + 1).softmax(-1), (x + y).sum(0)

    compiled = inductor.compile(make_fx(function)(x, y), [x, y], options={"fallback": False})
    for found, value in zip(compiled(x, y), function(x, y), strict=True):
        torch.testing.assert_close(found, value, rtol=2e-2 if dtype != torch.float64 else 1e-7, atol=2e-2)


def test_a_torch_level_graph_with_modules():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16)).eval()
    x = torch.randn(5, 8)
    with torch.no_grad():
        (found,) = inductor.compile(torch.fx.symbolic_trace(model), [x])(x)
    torch.testing.assert_close(found, model(x))


def test_boxed_call_empties_the_list():
    x = torch.randn(10)
    compiled = inductor.compile(make_fx(torch.sin)(x), [x])
    inputs = [x]
    (found,) = compiled.call(inputs)
    assert inputs == []
    torch.testing.assert_close(found, x.sin())


def test_report_names_kernels_operators_and_files():
    x = torch.randn(10)
    compiled = inductor.compile(make_fx(lambda x: (x.sin() + 1).sort()[0])(x), [x])
    (kernel,) = compiled.kernels
    assert kernel.operators == ("sin", "add")
    assert kernel.name in kernel.path.read_text()
    assert [fallback.operator for fallback in compiled.report.fallbacks] == ["aten.sort.default"]
    assert "aten.sort.default" in str(compiled.report)


def test_an_input_of_another_size_is_refused():
    x = torch.randn(10)
    compiled = inductor.compile(make_fx(torch.sin)(x), [x])
    with pytest.raises(ValueError, match=r"of size \(11,\); this graph was compiled for torch.float32 of size \(10,\)"):
        compiled(torch.randn(11))
    with pytest.raises(ValueError, match="strides"):
        compiled(torch.randn(20)[::2])
    with pytest.raises(ValueError, match="is on meta; this graph was compiled for cpu"):
        compiled(x.to("meta"))


def test_where_an_input_lies_that_no_kernel_reads_is_for_the_library_to_judge():
    x = torch.randn(20)
    values, _ = inductor.compile(make_fx(torch.sort)(x), [x])(x.to("meta"))
    assert values.is_meta


def test_results_record_no_autograd_graph():
    x = torch.randn(4, 4, requires_grad=True)
    compiled = inductor.compile(make_fx(lambda x: x.detach() @ x.detach())(x), [x])
    (found,) = compiled.call([x])  # as other compilers call it
    assert not found.requires_grad
    assert torch.is_grad_enabled()


def test_equal_kernels_are_built_once():
    x = [torch.randn(6) for _ in range(3)]
    compiled = inductor.compile(
        make_fx(lambda a, b, c: (a.exp().sort()[0], b.exp().sort()[0], c.exp().sort()[0]))(*x), x
    )
    assert len({kernel.source for kernel in compiled.kernels}) == 1


@pytest.mark.parametrize(
    ("function", "bad"),
    [
        (lambda x, i: torch.nn.functional.embedding(i, x) + 1, 7),
        (lambda x, i: torch.nn.functional.embedding(i, x) + 1, -1),
        (lambda x, i: x[i] * 2, 7),
        (lambda x, i: x[i] * 2, -8),
        (lambda x, i: x.gather(0, i[:, None].expand(-1, 5)) + 1, -1),
        (lambda x, i: x.index_select(0, i) + 1, 7),
        (lambda x, i: torch.zeros(7, 5).scatter_add(0, i[:, None].expand(-1, 5), x[: i.shape[0]]), 7),
    ],
)
def test_a_position_outside_its_axis_raises_as_in_eager(function, bad):
    x, good = torch.randn(7, 5), torch.tensor([0, 6, 3])
    compiled = inductor.compile(make_fx(function)(x, good), [x, good])
    torch.testing.assert_close(compiled(x, good)[0], function(x, good))
    wrong = torch.tensor([0, bad, 3])
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        function(x, wrong)
    with pytest.raises(IndexError, match="index out of range in a kernel made of"):
        compiled(x, wrong)
    torch.testing.assert_close(compiled(x, good)[0], function(x, good))


def test_indices_may_count_from_the_end_where_eager_lets_them():
    x, i = torch.randn(7, 5), torch.tensor([-1, 2, -7])
    compiled = inductor.compile(make_fx(lambda x, i: x[i] * 2)(x, i), [x, i])
    assert torch.equal(compiled(x, i)[0], x[i] * 2)


@pytest.mark.parametrize("function", [lambda x, i: x[i] * 2, lambda x, i: torch.nn.functional.embedding(i, x) + 1])
def test_positions_on_an_axis_of_size_one_are_checked_too(function):
    x, good, wrong = torch.randn(1, 5), torch.tensor([0, 0]), torch.tensor([0, 3])
    compiled = inductor.compile(make_fx(function)(x, good), [x, good])
    assert torch.equal(compiled(x, good)[0], function(x, good))
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        compiled(x, wrong)


DATA_SIZES = {
    "masked_select": lambda x: torch.masked_select(x, x > 0) * 2 + 1,
    "nonzero": lambda x: (x > 0).nonzero() + 1,
    "rows": lambda x: x[x[:, 0] > 0].sum(1).exp(),
}


@pytest.mark.parametrize("name", DATA_SIZES)
def test_sizes_that_a_call_returns(name):
    function, x = DATA_SIZES[name], torch.randn(20, 7)
    graph = make_fx(function, tracing_mode="fake")(x)
    compiled = inductor.compile(graph, [x], options={"fallback": False})
    for value in (x, -x, torch.ones_like(x)):
        torch.testing.assert_close(compiled(value)[0], function(value))


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min"])
def test_extremes_of_truths(name):
    x, reduce = torch.rand(40, 33) > 0.3, getattr(torch, name)
    for dim in (0, 1):
        expected = reduce(x, dim)
        compiled = inductor.compile(make_fx(partial(reduce, dim=dim))(x), [x], options={"fallback": False})
        assert all(map(torch.equal, compiled(x), expected if isinstance(expected, tuple) else [expected]))


_IMPORT = """
import os, sys, torch
def tasks(): return sorted(os.listdir("/proc/self/task")), open("/proc/self/task/%d/children" % os.getpid()).read()
before = tasks()
import inductor
assert tasks() == before, (before, tasks())
loaded = [name for name in ("torch._dynamo", "torch._inductor", "triton") if name in sys.modules]
print(len(before[0]), loaded)
"""


def test_importing_starts_nothing():
    """No thread, no process, and neither torch's compiler nor Triton is loaded before a graph needs it."""
    done = subprocess.run([sys.executable, "-c", _IMPORT], env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith("[]\n"), done.stdout


def test_threads_compile_graphs_that_have_to_be_traced():
    """Torch's tracer is one for the whole process."""
    graphs = [torch.fx.symbolic_trace(lambda x, k=k: torch.nn.functional.layer_norm(x * k, (3,))) for k in range(1, 7)]
    x = torch.randn(5, 3)
    with ThreadPoolExecutor(6) as threads:
        compiled = list(threads.map(lambda gm: inductor.compile(gm, [x], options={"fallback": False}), graphs))
    for gm, found in zip(graphs, compiled, strict=True):
        torch.testing.assert_close(found(x)[0], gm(x))
