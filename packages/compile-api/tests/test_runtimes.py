"""Other runtimes as backends: the same results as eager where they are installed, a sentence where they are not."""

import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import types

import pytest
import torch
from torch import nn

import compile_api
from compile_api.backends import describe_backends, lookup
from compile_api.errors import BackendCannot

ENTRIES = {entry.name: entry for entry in describe_backends()}


def needs(name):
    if ENTRIES[name].obstacle:
        pytest.skip(f"{name} {ENTRIES[name].obstacle}")


def networks():
    yield "mlp", nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3), nn.LogSoftmax(-1)), (4, 6)
    yield (
        "convolutions",
        nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=2, dilation=2, padding=2), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        ),
        (2, 3, 20, 20),
    )  # fmt: skip


NETWORKS = [pytest.param(net, shape, id=name) for name, net, shape in networks()]


@pytest.mark.parametrize("name", ["onnxrt", "openvino", "ofi", "tvm"])
@pytest.mark.parametrize(("net", "shape"), NETWORKS)
def test_inference_agrees_with_eager(name, net, shape):
    needs(name)
    net.eval()
    compiled = compile_api.compile(net, backend=name)
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)
    report = compile_api.report(compiled)
    assert (len(report.captured), report.refused) == (1, ())


@pytest.mark.parametrize("name", ["openvino", "ofi", "tvm"])
def test_a_backend_for_inference_leaves_training_to_eager_and_says_so(name):
    needs(name)
    net = nn.Linear(3, 3)
    compiled = compile_api.compile(net, backend=name)
    compiled(torch.ones(2, 3)).sum().backward()
    assert net.weight.grad is not None
    assert f"{name} is for inference" in compile_api.report(compiled).refused[0].reason


# -- onnxrt trains ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("net", "shape"), NETWORKS)
def test_onnxrt_trains_with_a_session_each_way(net, shape):
    needs("onnxrt")
    net.train()
    compiled = compile_api.compile(net, backend="onnxrt")
    x = torch.randn(shape)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    gradients, statistics = [], []
    for call in (net, compiled):
        net.load_state_dict(state)
        net.zero_grad()
        call(x).square().sum().backward()
        gradients.append([p.grad.clone() for p in net.parameters()])
        statistics.append([b.clone() for b in net.buffers()])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(statistics[1], statistics[0])
    assert [graph.direction for graph in compile_api.report(compiled).compiled] == ["forward", "backward"]
    assert all(graph.library_calls for graph in compile_api.report(compiled).compiled)


def attention(q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


OPERATORS = {
    "arithmetic": lambda x: (x * 2 + 1 - x / 3) ** 2,
    "unary": lambda x: x.abs().sqrt() + x.sin() + x.exp().log1p() + (x * x + 1).rsqrt() + x.erf(),
    "integers": lambda x: (x > 0).sum(-1) + x.argmax(-1),
    "masks": lambda x: torch.where((x > 0) & (x != 1), x, -x).clamp(-1, 1),
    "mixed types": lambda x: x.int() + x.double() * 2,
    "reductions": lambda x: x.mean((0, 2)) + x.sum((0, 2)) + x.amax((0, 2)) + x.var((0, 2)),
    "views": lambda x: x.permute(2, 0, 1)[1:, ::2].unsqueeze(0).expand(2, -1, -1, -1).flatten(1).t(),
    "joined": lambda x: torch.stack(torch.cat([x, x + 1], 1).split([3, 2, 1], 1)[:1] * 2),
    "padded": lambda x: nn.functional.pad(x, (1, 2, 0, 1), value=3.0).cumsum(-1),
    "chosen": lambda x: x.gather(1, torch.zeros(2, 1, 4, dtype=torch.long)) + x.select(1, 2).unsqueeze(1),
    "triangles": lambda x: x.tril() + x.triu(1) + torch.arange(4) + torch.ones(4),
    "activations": lambda x: nn.functional.leaky_relu(x) + nn.functional.hardswish(x) + nn.functional.softplus(x),
    "attention": lambda x: attention(x[None], x[None] + 1, x[None]),
}


@pytest.mark.parametrize("function", OPERATORS.values(), ids=list(OPERATORS))
def test_the_rules_of_onnx_agree_with_eager(function):
    needs("onnxrt")
    x = torch.randn(2, 3, 4)
    compiled = compile_api.compile(function, backend="onnxrt")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-5)
    left = [name for graph in compile_api.report(compiled).compiled for name in graph.fallbacks]
    assert not left, f"left to torch: {left}"


def test_what_onnx_cannot_say_stays_with_torch_between_sessions():
    needs("onnxrt")
    f = compile_api.compile(lambda x: torch.linalg.inv(x.exp() + 5 * torch.eye(3)).sin() + 1, backend="onnxrt")
    x = torch.rand(3, 3)
    torch.testing.assert_close(f(x), torch.linalg.inv(x.exp() + 5 * torch.eye(3)).sin() + 1)
    graph = compile_api.report(f).compiled[0]
    assert len(graph.library_calls) == 2
    assert any("linalg_inv" in name for name in graph.fallbacks)


def test_half_precision_that_numpy_lacks_stays_with_torch():
    needs("onnxrt")
    f = compile_api.compile(lambda x: x.sin() + 1, backend="onnxrt")
    x = torch.randn(4, dtype=torch.bfloat16)
    assert torch.equal(f(x), x.sin() + 1)


# -- sizes that vary ----------------------------------------------------------------------------------------------


def models(compiled):
    return sum(bool(graph.library_calls) for graph in compile_api.report(compiled).compiled)


@pytest.mark.parametrize("name", ["onnxrt", "openvino", "ofi", "tvm"])
def test_other_sizes_get_models_of_their_own(name):
    needs(name)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU()).eval()
    compiled = compile_api.compile(net, backend=name)
    with torch.no_grad():
        for length in (3, 4, 5, 4, 3, 5):
            x = torch.randn(length, 6)
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)
    assert models(compiled) >= 3
    assert not compile_api.report(compiled).refused


@pytest.mark.parametrize("name", ["onnxrt", "openvino", "ofi", "tvm"])
def test_sizes_beyond_the_limit_run_eagerly_which_is_said_once(name):
    needs(name)
    f = compile_api.compile(lambda x: x.sin() * x.shape[0], backend=name, dynamic=True, options={"recompile_limit": 2})
    for length in (3, 4, 5, 6, 3):
        x = torch.randn(length)
        torch.testing.assert_close(f(x), x.sin() * length)
    assert models(f) == 2
    (refused,) = compile_api.report(f).refused
    assert (refused.stage, refused.consequence) == (name, "other sizes run eagerly")
    assert "recompile_limit of 2" in refused.reason


def test_onnxrt_trains_with_batches_of_any_size():
    needs("onnxrt")
    net = nn.Linear(6, 3)
    compiled = compile_api.compile(net, backend="onnxrt")
    for length in (3, 4, 5):
        x = torch.randn(length, 6)
        gradients = []
        for call in (net, compiled):
            net.zero_grad()
            call(x).square().sum().backward()
            gradients.append(net.weight.grad.clone())
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
    assert models(compiled) >= 6
    assert not compile_api.report(compiled).refused


# -- what cannot be installed here --------------------------------------------------------------------------------


def test_providers_are_taken_in_the_order_asked():
    needs("onnxrt")
    from compile_api.runtimes.onnxrt import chosen_providers

    every = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")
    assert chosen_providers(every, every, "cuda") == list(every)
    assert chosen_providers(every, every[1:], "cuda") == list(every[1:])
    assert chosen_providers(every, every, "cpu") == ["CPUExecutionProvider"]
    with pytest.raises(BackendCannot, match="none of the providers OpenVINOExecutionProvider"):
        chosen_providers(("OpenVINOExecutionProvider",), every, "cpu")


def test_tensorrt_without_its_provider_says_how_to_get_it(monkeypatch):
    from compile_api.runtimes import onnxrt

    fake = types.SimpleNamespace(get_available_providers=lambda: ["CPUExecutionProvider"])
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    assert "pip install onnxruntime-gpu tensorrt" in onnxrt.lacks_tensorrt()
    fake.get_available_providers = lambda: ["TensorrtExecutionProvider"]
    assert onnxrt.lacks_tensorrt() == ""


@pytest.fixture
def extension(monkeypatch):
    """Stands for Intel's extension for PyTorch: what the adapter calls of it."""
    module = types.ModuleType("intel_extension_for_pytorch")
    module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    module.optimized = []
    module.optimize = lambda model, *, inplace: module.optimized.append((model.training, inplace)) or model
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(importlib.metadata, "version", lambda package: torch.__version__)
    return module


@pytest.mark.parametrize("dynamic", [None, True])
def test_ipex_optimizes_traces_and_freezes_for_inference(extension, dynamic):
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU()).eval()
    compiled = compile_api.compile(net, backend="ipex", dynamic=dynamic)
    with torch.no_grad():
        for length in (3, 4, 5):
            x = torch.randn(length, 6)
            torch.testing.assert_close(compiled(x), net(x))
    assert set(extension.optimized) == {(False, False)}
    assert models(compiled) >= 3
    assert not compile_api.report(compiled).refused


def test_ipex_trains(extension):
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2))
    compiled = compile_api.compile(net, backend="ipex")
    x, gradients = torch.randn(5, 6), []
    for call in (net, compiled):
        net.zero_grad()
        call(x).square().sum().backward()
        gradients.append([p.grad.clone() for p in net.parameters()])
    torch.testing.assert_close(*gradients)
    assert [graph.direction for graph in compile_api.report(compiled).compiled] == ["forward", "backward"]
    assert not compile_api.report(compiled).refused


def test_ipex_is_not_imported_beside_another_torch(extension, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "2.8.0+cpu")
    with pytest.raises(compile_api.BackendNotReady, match=r"needs torch 2\.8 and meets torch"):
        lookup("ipex")


@pytest.mark.parametrize("name", ["ipex", "nvfuser"])
def test_what_no_torch_of_today_can_have_is_not_recommended(name):
    needed = ENTRIES[name].install
    assert "pip install" not in needed
    assert "older than compile-api takes" in needed
    assert "'inductor'" in needed


def test_a_tvm_without_relax_is_told_apart(monkeypatch, tmp_path):
    from compile_api.runtimes import tvm

    spec = types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert "needs a TVM with Relax" in tvm.lacks_relax()
    (tmp_path / "relax" / "frontend" / "torch").mkdir(parents=True)
    assert tvm.lacks_relax() == ""


class FakeDefinition:
    """Records what nvFuser would be told."""

    def __init__(self):
        self.told = []
        self.ops = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __getattr__(self, name):
        return lambda *args: self.told.append((name, args)) or name


def test_a_chain_is_written_for_nvfuser():
    from compile_api.runtimes.nvfuser import define

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2)
    total = graph.call_function(torch.ops.aten.add.Tensor, (x, 1.0))
    graph.output((graph.call_function(torch.ops.aten.relu.default, (total,)),))
    definition = FakeDefinition()
    assert define(definition, torch.fx.GraphModule({}, graph)) is False
    assert [name for name, _ in definition.told] == ["from_pytorch", "define_scalar", "add", "relu", "add_output"]


@pytest.mark.parametrize("name", ["onnxrt", "openvino", "tvm", "ofi", "tensorrt", "ipex", "nvfuser"])
def test_every_runtime_has_a_note_and_says_what_it_lacks(name):
    entry = ENTRIES[name]
    assert entry.note
    assert "inference" in str(entry)
    assert "CPU" in entry.devices or "GPU" in entry.devices
    if entry.obstacle:
        assert name not in compile_api.list_backends()
        with pytest.raises(compile_api.BackendNotReady, match=name):
            lookup(name)
    else:
        assert name in compile_api.list_backends()


# -- entry points -------------------------------------------------------------------------------------------------

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """An installed distribution with entry points, made of two files."""

    def install(name, group, point, target):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(METADATA.format(name=name))
        (folder / "entry_points.txt").write_text(f"[{group}]\n{point} = {target}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        return tmp_path

    compile_api.backends.entry_points.cache_clear()
    yield install
    compile_api.backends.entry_points.cache_clear()


def test_a_distribution_adds_a_backend(distribution, program):
    program("their_compiler", "def compile_graph(gm, inputs):\n    'Theirs.'\n    return gm.forward\n")
    distribution("theirs", "compile_api.backends", "theirs", "their_compiler:compile_graph")
    assert "theirs" in compile_api.list_backends()
    assert compile_api.compile(lambda x: x + 1, backend="theirs")(torch.ones(1)) == 2


def test_a_distribution_that_cannot_be_imported_is_named(distribution):
    distribution("broken", "compile_api.backends", "broken", "no_such_module_at_all:f")
    with pytest.raises(compile_api.BackendNotReady, match="backend 'broken' of no_such_module_at_all:f"):
        compile_api.compile(lambda x: x, backend="broken")


def test_torchs_own_compiler_finds_our_backend(distribution, tmp_path):
    """The group and target are those of this package's metadata."""
    import os
    import subprocess

    folder = distribution("face", "torch_dynamo_backends", "compile_api", "compile_api.compile:compile_api")
    script = (
        "import torch; m = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU())\n"
        "f = torch.compile(m, backend='compile_api', options={'check': True}); x = torch.randn(2, 3)\n"
        "torch.testing.assert_close(f(x), m(x)); f(x).sum().backward()\n"
        "import sys; print('compile_api' in sys.modules, m[0].weight.grad is not None)\n"
    )
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "True"], done.stderr
