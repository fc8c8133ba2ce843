"""``inductor.compile`` on a GPU, against eager."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import inductor

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

CASES = {
    "pointwise": (lambda x, y: torch.tanh(x * y + 1).exp() - x.sigmoid(), (1000, 65), (1000, 65)),
    "broadcast": (lambda x, y: x * y[:, None] + y, (33, 33), (33,)),
    "softmax": (lambda x: x.softmax(-1), (170, 1000)),
    "long softmax": (lambda x: x.softmax(-1), (17, 50000)),
    "column softmax": (lambda x: x.log_softmax(0), (1700, 100)),
    "layer_norm": (lambda x, w, b: F.gelu(F.layer_norm(x, (768,), w, b)), (80, 768), (768,), (768,)),
    "rms_norm": (lambda x, y, w: F.rms_norm(x + y, (768,), w, 1e-6), (80, 768), (80, 768), (768,)),
    "sums": (lambda x: (x.sum(), x.sum(0), x.mean(1), x.var(0), x.amax(1), x.argmax(0)), (500, 400)),
    "transpose and add": (lambda x, y: x.t() + y, (300, 500), (500, 300)),
    "cat": (lambda x, y: torch.cat([x, y.exp()], 1), (5, 7), (5, 20)),
    "mlp": (lambda x, w, v: F.gelu(x @ w) @ v, (9, 16), (16, 32), (32, 8)),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1).relu() + 1, (2, 3, 8, 8), (4, 3, 3, 3)),
    "cumsum": (lambda x: (x / 8).cumsum(1), (5, 40)),
    "attention": (
        lambda q, k, v, m: (q @ k.mT * 0.125).masked_fill(m > 1, -torch.inf).softmax(-1) @ v,
        *[(2, 4, 77, 64)] * 3,
        (2, 1, 1, 77),
    ),
    "no elements": (lambda x: (x + 1, x.sum(0)), (0, 5)),
    "rows without elements": (lambda x: (x.sum(1), x.prod(1)), (5, 0)),
    "one number": (lambda x: x * 2 + x.sin(), ()),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_agrees_with_eager(name, dtype, tmp_path):
    torch.manual_seed(0)
    function, *shapes = CASES[name]
    inputs = [torch.randn(shape, device="cuda").to(dtype) for shape in shapes]
    options = {"fallback": False, "cache_dir": str(tmp_path)}
    compiled = inductor.compile(make_fx(function)(*inputs), inputs, options=options)
    expected = function(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 3e-2, "atol": 3e-2}
    for found, value in zip(compiled(*inputs), expected, strict=True):
        torch.testing.assert_close(found, value, check_stride=True, **tolerance)


def test_the_current_stream_is_used(tmp_path):
    x = torch.randn(1 << 20, device="cuda")
    compiled = inductor.compile(make_fx(lambda x: x * 2 + 1)(x), [x], options={"cache_dir": str(tmp_path)})
    compiled(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        y = torch.full_like(x, 3.0)
        (found,) = compiled(y)
    stream.synchronize()
    assert torch.equal(found, torch.full_like(x, 7.0))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("device", [0, 1])
def test_a_graph_runs_on_the_device_of_its_tensors(device, current, tmp_path):
    x = torch.randn(1000, 700, device=f"cuda:{device}")
    function = lambda x: (x * 2).softmax(-1).sum(0)
    with torch.cuda.device(current):
        compiled = inductor.compile(make_fx(function)(x), [x], options={"cache_dir": str(tmp_path)})
        (found,) = compiled(x)
        assert torch.cuda.current_device() == current
    assert found.device == x.device
    torch.testing.assert_close(found, function(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("at", [[3, 0, 2], 3, -1])
def test_positions_in_the_hosts_memory(at, tmp_path):
    x, at = torch.randn(8, 8, device="cuda"), torch.tensor(at)
    index = torch.ops.aten.index.Tensor
    function = lambda x, at: (index(x, [at]) * 2, index(x, [None, at]) + 1, x.index_put((at,), x[0]))
    compiled = inductor.compile(make_fx(function)(x, at), [x, at], options={"cache_dir": str(tmp_path)})
    torch.testing.assert_close(compiled(x, at), function(x, at))


def test_another_thread_that_has_not_used_the_device(tmp_path):
    x = torch.randn(1000, device="cuda")
    compiled = inductor.compile(make_fx(lambda x: x * 2 + 1)(x), [x], options={"cache_dir": str(tmp_path)})
    with ThreadPoolExecutor(1) as pool:
        (found,) = pool.submit(compiled, x).result()
    assert torch.equal(found, x * 2 + 1)


_SPAWNED = """
import multiprocessing, sys, torch, inductor
from concurrent.futures import ProcessPoolExecutor
from torch.fx.experimental.proxy_tensor import make_fx

def agrees(device):
    x = torch.arange(1000.0, device=device)
    compiled = inductor.compile(make_fx(lambda x: x * 2 + 1)(x), [x], options={"cache_dir": sys.argv[1]})
    return torch.equal(compiled(x)[0], x * 2 + 1)

if __name__ == "__main__":
    assert agrees(sys.argv[2])
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        print(*pool.map(agrees, [sys.argv[2]] * 2))
"""


def test_spawned_processes(tmp_path):
    """They have the parent's cache, and nothing of what it knows of its devices."""
    (tmp_path / "program.py").write_text(_SPAWNED)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "cache"), "cuda"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.stdout.split() == ["True", "True"], done.stderr[-2000:]


_OUTSIDE = """
import sys, torch, inductor
from torch.fx.experimental.proxy_tensor import make_fx
table, good = torch.randn(50, 8, device="cuda"), torch.tensor([0, -1, 49], device="cuda")
function = lambda t, i: t[i] * 2
compiled = inductor.compile(make_fx(function)(table, good), [table, good], options={"cache_dir": sys.argv[1]})
assert torch.equal(compiled(table, good)[0], function(table, good))
good[1] = 50
try:
    compiled(table, good)
    torch.cuda.synchronize()
except Exception as error:
    print("raised", type(error).__name__)
"""


def test_a_position_outside_is_an_error_as_in_eager(tmp_path):
    """In a process of its own: a failed assertion of a kernel ends the use of the device."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", _OUTSIDE, str(tmp_path)], env=env, capture_output=True, text=True)
    assert done.stdout.startswith("raised"), done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("rows", [17, 512])
def test_tuned_products_agree_with_eager(rows, tmp_path):
    x, w, v, b = (
        torch.randn(size, device="cuda").bfloat16() for size in ((rows, 520), (520, 1000), (1000, 72), (1000,))
    )
    function = lambda x, w, v, b: F.gelu(torch.addmm(b, x * 0.05, w)) @ v
    for _ in range(2):  # timed, then from the cache
        options = {"cache_dir": str(tmp_path), "max_autotune": True, "fallback": False}
        compiled = inductor.compile(make_fx(function)(x, w, v, b), [x, w, v, b], options=options)
        (found,), expected = compiled(x, w, v, b), function(*(tensor.double() for tensor in (x, w, v, b)))
        assert (found.double() - expected).norm() / expected.norm() < 2e-2
    assert len(list((tmp_path / "kernels").glob("*.tiling"))) == 2


def test_tuned_kernels_agree_with_eager(tmp_path):
    x, y = torch.randn(700, 500, device="cuda"), torch.randn(500, 700, device="cuda")
    function = lambda x, y: ((x.t() + y).softmax(1), x.sum(0))
    for _ in range(2):  # timed, then from the cache
        options = {"cache_dir": str(tmp_path), "max_autotune": True}
        compiled = inductor.compile(make_fx(function)(x, y), [x, y], options=options)
        torch.testing.assert_close(tuple(compiled(x, y)), function(x, y), rtol=1e-4, atol=1e-4)
    assert list((tmp_path / "kernels").glob("*.shape"))
