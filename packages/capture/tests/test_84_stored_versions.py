"""Versions of frames that another process made: taken up without evaluation, or not at all."""

import json
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

import capture
from capture.guards.conditions import program_of
from capture.guards.decided import decided
from capture.guards.sources import ArgSource

HERE = pathlib.Path(__file__).parent / "stored"


class Worker:
    """Processes that run the program, each a fresh one."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "worker.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, folder, store, before="", around="contextlib.nullcontext()"):
        self.process.stdin.write(json.dumps([str(folder), str(store), before, around]) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        assert "crash" not in told, told["crash"]
        return told


@pytest.fixture(scope="module")
def worker():
    made = Worker()
    yield made
    made.process.stdin.close()
    made.process.stdout.close()
    made.process.wait()


@pytest.fixture(scope="module")
def written(worker, tmp_path_factory):
    """The program, and a store that knows it."""
    path = tmp_path_factory.mktemp("written")
    shutil.copytree(HERE, path / "program")
    first = worker(path / "program", path / "store")
    assert first["same"]
    assert [outcome for outcome, _ in first["outcomes"]] == ["stored"], first
    return path


@pytest.fixture
def folder(written):
    yield written / "program"
    for file in ("program.py", "helper.py"):
        shutil.copy2(HERE / file, written / "program" / file)


@pytest.fixture
def stored(written, tmp_path):
    shutil.copytree(written / "store", tmp_path / "store")
    return tmp_path / "store"


def test_another_process_takes_it_up(worker, folder, stored):
    second = worker(folder, stored)
    assert (second["same"], second["compiled"], second["outcomes"]) == (True, 0, [["taken up", ""]])


TEXTS = [
    ("program.py", "self.act(x) * self.factor", "self.act(x) + self.factor"),
    ("program.py", "torch.relu(x)", "torch.sigmoid(x)"),
    ("program.py", "class Net(Base)", "class Net(Other)"),
    ("program.py", "* SCALE", "- SCALE"),
    ("program.py", "SCALE = 2.0", "SCALE = 3.0"),
    ("program.py", "SCALE = 2.0", "SCALE = 2"),
    ("program.py", "closed_over(3)", "closed_over(4)"),
    ("program.py", "return x * k", "return x + k"),
    ("program.py", "k=1.0", "k=2.0"),
    ("program.py", "more=0.5", "more=0.75"),
    ("program.py", "function(x) + function(x)", "function(x) * function(x)"),
    ("program.py", "x - 0.25", "x - 0.75"),
    ("program.py", "@doubled\n", ""),
    ("program.py", "factor = 1.5", "factor = 2.5"),
    ("program.py", "return 0.5", "return 0.75"),
    ("program.py", "x.sin()", "x.cos()"),
    ("program.py", '"shift": 0.5', '"shift": 1.5'),
    ("program.py", "LayerNorm(4)", "LayerNorm(4, eps=0.1)"),
    ("program.py", "LayerNorm(4)", "Identity()"),
    ("program.py", "Linear(4, 4)", "Linear(4, 4, bias=False)"),
    ("program.py", "softplus", "elu"),
    ("helper.py", "double = False", "double = True"),
    ("helper.py", "by = 1.25", "by = 2.25"),
    ("helper.py", "x * cls.by", "x - cls.by"),
    ("helper.py", "torch.tanh", "torch.exp"),
    ("helper.py", "BIAS = 0.125", "BIAS = 0.5"),
    ("helper.py", ".flip(0)", ".flip(1)"),
    ("helper.py", "@classmethod", "@classmethod\n    @lambda f: lambda cls, x: x"),
]


@pytest.mark.parametrize(("file", "old", "new"), TEXTS)
def test_source_that_changed_is_seen(worker, folder, stored, file, old, new):
    text = (folder / file).read_text()
    assert old in text
    other = "class Other(Base):\n    def act(self, x):\n        return x.exp()\n\n\nclass Net("
    text = text.replace(old, new).replace("class Net(", other)
    (folder / file).write_text(text)
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    assert worker(folder, stored)["same"]


CHANGES = [
    "program.SCALE = 5.0",
    "program.SCALE = torch.tensor(2.0)",
    "program.inner = lambda x: x",
    "program.helper.twist = lambda x: x * 7",
    "helper.deeper = torch.exp",
    "program.TABLE['shift'] = 9.0",
    "program.CONFIG.double = True",
    "helper.Config.double = True",
    "helper.Config.__getattribute__ = lambda self, name: True",
    "program.closed = program.closed_over(8)",
    "program.closed.__closure__[0].cell_contents = 9",
    "program.default.__defaults__ = (4.0,)",
    "program.default.__kwdefaults__ = {'more': 4.0}",
    "program.default.__code__ = (lambda x, k=1.0, *, more=0.5: x - k * more).__code__",
    "program.decorated.__closure__[0].cell_contents.__code__ = (lambda x: x + 3).__code__",
    "program.Base.act = lambda self, x: x",
    "program.Net.act = lambda self, x: x",
    "program.Net.factor = 9.0",
    "net.factor = 9.0",
    "net.act = lambda x: x * 5",
    "net.forward = lambda x: x * 5",
    "program.Net.__call__ = lambda self, x: x * 5",
    "torch.nn.Module.__call__ = lambda self, x: x * 5",
    "program.Net.half = 0.75",
    "program.Net.half = property(lambda self: 2.5)",
    "program.Net.turned = staticmethod(torch.exp)",
    "program.Net.__getattr__ = lambda self, name: (lambda x: x)",
    "helper.Scaler.by = 4.0",
    "helper.Scaler = type('Scaler', (), {'apply_to': staticmethod(lambda x: x * 3)})",
    "torch.relu = torch.sigmoid",
    "torch.tanh = lambda x: x",
    "torch.Tensor.sin = torch.Tensor.cos",
    "torch.Tensor.__mul__ = torch.Tensor.__add__",
    "torch.Tensor.__add__ = lambda self, other: self",
    "torch.Tensor.flip = lambda self, dim: self",
    "torch.nn.functional.softplus = torch.nn.functional.elu",
    "torch.nn.functional.linear = lambda x, w, b: x",
    "torch.nn.modules.linear.F = type('F', (), {'linear': staticmethod(lambda x, w, b: x)})",
    "torch.nn.functional.layer_norm.__code__ = (lambda i, s, w=None, b=None, eps=1e-5: i).__code__",
    "torch.layer_norm = lambda x, *rest: x",
    "torch.nn.Linear.forward = lambda self, x: x",
    "torch.nn.Linear.forward.__code__ = (lambda self, input: input).__code__",
    "torch.nn.LayerNorm.__call__ = lambda self, x: x",
    "torch.nn.Module._call_impl = lambda self, x: x",
    "torch.nn.modules.module._global_forward_hooks[7] = lambda m, a, r: r * 2",
    "torch.nn.modules.module.register_module_forward_pre_hook(lambda m, a: (a[0] * 2,))",
    "net.register_forward_hook(lambda m, a, r: r * 2)",
    "net.lin.register_forward_pre_hook(lambda m, a: (a[0] * 2,))",
    "net.lin = torch.nn.Linear(4, 4)",
    "net.lin = torch.nn.Identity()",
    "net.lin = torch.nn.Linear(4, 4, bias=False)",
    "net.lin = torch.nn.Sequential(net.lin)",
    "net.norm.eps = 0.5",
    "net.norm.bias = None",
    "net.train(); net.drop.p = 0.0",
    "net.drop.p = 1.0; net.drop.training = True",
    "net.double(); x = x.double()",
    "net.lin.weight.requires_grad_(False); net.lin.bias.requires_grad_(False)",
    "net.lin.weight = net.norm.weight",
    "x = torch.randn(5, 4)",
    "x = torch.randn(4)",
    "x = torch.randn(2, 3, 4)",
    "x = torch.randn(4, 3).t()",
    "x = torch.randn(6, 8)[::2, ::2]",
    "x = torch.randn(3, 4, requires_grad=True)",
    "x = torch.randn(3, 4).to(torch.complex64).imag",
    "x = torch._neg_view(torch.randn(3, 4))",
    "x = torch.randn(3, 4).as_subclass(type('T', (torch.Tensor,), {}))",
    "x = torch.nn.Parameter(torch.randn(3, 4))",
    "x = 3",
    "torch.set_default_dtype(torch.float64)",
    "torch.set_grad_enabled(False)",
    "torch.use_deterministic_algorithms(True)",
    "torch.__version__ = '9.9'",
    "settings = 'others'",
    "torch.set_default_device('meta')",
    "net = torch.nn.Sequential(net)",
    "net.__class__ = type('Net', (program.Net,), {'act': lambda self, x: x})",
    "program.Net.__bases__ = (torch.nn.Linear,)",
    "capture.disallow_in_graph(torch.relu)",
    "capture.disable(program.inner)",
    "import builtins; builtins.float = int",
    "import torch.library as l; l.Library('aten', 'IMPL').impl('relu', lambda x: x.clone(), 'AutogradCPU')",
]


@pytest.mark.parametrize("before", CHANGES)
def test_what_changed_before_the_first_call_is_seen(worker, folder, stored, before):
    assert worker(folder, stored, before)["same"]


AROUND = [
    "torch.autocast('cpu', torch.bfloat16)",
    "torch.no_grad()",
    "torch.inference_mode()",
    "torch.device('cpu')",
    "torch.autograd.set_detect_anomaly(True)",
    "torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)",
    "torch.autograd.forward_ad.dual_level()",
    "torch.utils.flop_counter.FlopCounterMode(display=False)",
]


@pytest.mark.parametrize("around", AROUND)
def test_what_is_in_force_is_seen(worker, folder, stored, around):
    assert worker(folder, stored, "import torch.utils.flop_counter", around)["same"]


@pytest.mark.parametrize("part", range(12))
def test_bytes_that_changed_are_refused(worker, folder, stored, part):
    (file,) = stored.iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) * part // 12] ^= 1
    file.write_bytes(data)
    told = worker(folder, stored)
    assert told["same"]
    assert told["compiled"] == 1


@pytest.mark.parametrize("part", range(4))
def test_bytes_that_end_early_are_refused(worker, folder, stored, part):
    (file,) = stored.iterdir()
    file.write_bytes(file.read_bytes()[: file.stat().st_size * part // 4])
    told = worker(folder, stored)
    assert told["same"]
    assert told["compiled"] == 1
    assert [outcome for outcome, _ in told["outcomes"]] == ["refused", "stored"]


KEPT = [
    "net.lin.weight.data += 1",
    "net.lin = torch.nn.Linear(4, 4)",
    "x = torch.ones(3, 4)",
    "import math",
]


@pytest.mark.parametrize("before", KEPT)
def test_what_no_guard_tells_of_may_change(worker, folder, stored, before):
    told = worker(folder, stored, before)
    assert (told["same"], told["compiled"]) == (True, 0), told


def body(worker, folder, store, text):
    """What became of the forward with this body, in two processes."""
    program = (folder / "program.py").read_text()
    before, _, _ = program.partition("    def forward(self, x):")
    (folder / "program.py").write_text(before + "    def forward(self, x):\n" + textwrap.indent(text, " " * 8))
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    first, second = worker(folder, store), worker(folder, store)
    assert first["same"]
    assert second["same"]
    return first, second


BODIES = {
    "a break": "x = x + 1\nif x.sum() > 0:\n    x = x * 2\nreturn x - 1",
    "a handler": "try:\n    raise ValueError(x.shape[0])\nexcept ValueError as error:\n    return x * error.args[0]",
    "an exception": "x = x + 1\nraise ValueError('no')",
    "an effect": "self.kept = x + 1\nreturn x * 2",
    "a list": "kept = []\nfor k in range(3):\n    kept.append(x * k)\nreturn kept",
    "a weight": "self.lin.weight.detach().mul_(1)\nreturn x * 2",
    "a draw": "return torch.nn.functional.dropout(x, 0.5, True) * 0",
    "a function": "def inner(y):\n    return y * 2\nreturn inner(x) + (lambda z: z.sin())(x)",
    "no tensor": "return 3",
}


@pytest.mark.parametrize("name", BODIES)
def test_forms_of_frames(worker, folder, tmp_path, name):
    first, second = body(worker, folder, tmp_path / "own", BODIES[name])
    assert second["compiled"] == 0, (first, second)
    assert {outcome for outcome, _ in second["outcomes"]} == {"taken up"}, (first, second)


VARYING = {
    "a product": "return x.reshape(-1) * x.shape[0]",
    "a half": "return x[: x.shape[0] // 2] if x.shape[0] > 2 else x",
}


@pytest.mark.parametrize("name", VARYING)
def test_sizes_that_vary(worker, folder, tmp_path, name):
    body(worker, folder, tmp_path / "own", VARYING[name])
    first = worker(folder, tmp_path / "varying", "capture.mark_dynamic(x, 0)")
    others = [worker(folder, tmp_path / "varying", f"x = torch.ones({size}, 4)") for size in (7, 2)]
    assert all(told["same"] for told in (first, *others))
    assert others[0]["compiled"] == 0, (first, others)


@given(st.lists(st.integers(1, 2**62), min_size=2, max_size=2))
def test_programs_of_conditions_are_decided_in_any_numbers(sizes):
    a, b = sympy.symbols("a b", integer=True, positive=True)
    reads = {a: ("number", 0, 0), b: ("number", 1, 0)}
    paths = (ArgSource(0, "a"), ArgSource(1, "b"))
    for condition in (a * b > 2**70, sympy.Ne(a + b, 5), (a < b) | (b**2 <= a), sympy.Min(a, b) >= 3):
        program = program_of(condition, reads)
        if program is not None:
            assert decided(paths, program, None, *sizes) == bool(condition.subs({a: sizes[0], b: sizes[1]}))


REFUSED = {
    "makes a set": "return [x * k for k in {1, 2, x.shape[0]}]",
    "an address": "return x * (id(x) % 2)",
    "another process's": "import os\nreturn x * len(os.environ.get('HOME', ''))",
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_stored_is_said(worker, folder, tmp_path, why):
    first, _ = body(worker, folder, tmp_path / "own", REFUSED[why])
    assert not any(outcome == "stored" for outcome, _ in first["outcomes"]), first


class Broken:
    """A store that fails."""

    settings = ""

    def find(self, key):
        raise OSError("no such folder")

    def keep(self, key, data):
        raise OSError("the disk is full")


def test_a_store_that_fails_costs_nothing_but_time(x):
    log = capture.Log()
    compiled = capture.optimize("eager", store=Broken(), log=log)(lambda x: x + 1)
    assert torch.equal(compiled(x), x + 1)
    told = [record for record in log.records() if isinstance(record, capture.StoreRecord)]
    assert [record.outcome for record in told] == ["refused", "not stored"]


@pytest.fixture
def x():
    return torch.arange(3.0)
