"""What one process compiled is trained by the next one, as long as nothing has changed that matters."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "warm_start"))

from processes import AROUND, CHANGES, IMPORTS, STORED, TEXTS, Worker, as_it_was, changed

EACH = 1 if os.environ.get("WARM_WHOLE") else 4
"""Of what is tried with inference, too, each fourth; with ``WARM_WHOLE=1`` all."""
FIRST = (
    "[torch.nn.init.uniform_(each, 0.5, 1.5) for each in net.norm.parameters()]\n"
    "net.train(); norm = torch.nn.BatchNorm1d(4, eps=0.1)\n"
    "net.drop = torch.nn.Sequential(torch.nn.Tanh(), norm, torch.nn.Dropout(0.5))\n"
    "import torch.optim, sys; optim = {name: sys.modules['torch.optim.' + name] for name in ('sgd', 'optimizer')}"
)

TRAINED = [
    "net.lin.weight.requires_grad_(False)",
    "net.lin.requires_grad_(False); net.norm.requires_grad_(False)",
    "net.drop[1].requires_grad_(False)",
    "net.norm.weight.requires_grad_(False); net.norm.bias.requires_grad_(False)",
    "net.requires_grad_(False)",
    "net.lin.weight.register_hook(lambda g: g * 2)",
    "net.lin.weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3))",
    "net.lin.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))",
    "net.lin.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))",
    "torch.nn.modules.module.register_module_full_backward_hook(lambda m, gi, go: None)",
    "net.lin.weight.grad = torch.ones(4, 4)",
    "net.drop[1].momentum = 0.5",
    "net.drop[1].momentum = None",
    "net.drop[1].eval()",
    "net.drop[1].running_mean = None; net.drop[1].running_var = None",
    "net.drop[1].running_mean.add_(1)",
    "net.drop[1].num_batches_tracked.fill_(7)",
    "net.drop[1].double()",
    "net.drop[2].p = 0.25",
    "net.drop[2].p = 0.0",
    "net.drop[2].inplace = True",
    "net.eval()",
    "torch.nn.Module.half(net)",
    "net.bfloat16(); x = x.bfloat16()",
    "net.lin.weight = torch.nn.Parameter(net.lin.weight.detach().t().contiguous().t())",
    "net.lin.bias = net.norm.bias",
    "x = x.requires_grad_()",
    "x = torch.randn(3, 4, requires_grad=True).exp()",
    "x = torch.randn(3, 4, requires_grad=True).exp(); x.retain_grad()",
    "x = torch.randn(4, 3, requires_grad=True).t()",
    "x = x.requires_grad_(); x.register_hook(lambda g: g * 5)",
    "x = torch.randn(1, 4)",
    "torch.autograd.set_detect_anomaly(True)",
    "torch.autograd.set_multithreading_enabled(False)",
    "torch.nn.functional.batch_norm = lambda x, *rest, **named: x * 2",
    "torch.nn.modules.batchnorm.F = type('F', (), {'batch_norm': staticmethod(lambda x, *rest: x)})",
    "torch.nn.BatchNorm1d.forward = lambda self, x: x - 1",
    "torch.Tensor.backward = lambda self, *rest, **named: None",
    "torch.optim.SGD.step = lambda self: None",
    "torch.manual_seed(9)",
]


@pytest.fixture(scope="module")
def worker():
    made = Worker(2, "training.py", FIRST)
    yield made
    made.end()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written")
    shutil.copytree(STORED, path / "program")
    first_process = Worker(1, "training.py", FIRST)
    first = first_process(path / "program", path / "cache")
    first_process.end()
    assert first["same"], first
    assert [outcome for outcome, _ in first["outcomes"]] == ["stored"], first
    assert first["compiled"] == 2, "forward and backward"
    return path


@pytest.fixture
def folder(written):
    yield written / "program"
    as_it_was(written / "program")


@pytest.fixture
def cache(written):
    """As it was; what other tests added goes."""
    kept = {path: path.read_bytes() for path in (written / "cache/kernels").iterdir()}
    yield written / "cache"
    for path in (written / "cache/kernels").iterdir():
        if path not in kept:
            path.unlink()
    for path, data in kept.items():
        if path.read_bytes() != data:
            path.unlink()
            path.write_bytes(data)


def test_another_process_trains_what_it_takes_up(worker, folder, cache):
    second = worker(folder, cache)
    assert second.pop("result")
    told = {"compiled": 0, "outcomes": [["taken up", ""]], "again": [], "refused": []}
    assert second == {"same": True, "expected": None, **told}


@pytest.mark.parametrize(("file", "old", "new"), TEXTS[::EACH])
def test_source_that_changed_is_seen(worker, folder, cache, file, old, new):
    changed(file, old, new, folder)
    assert worker(folder, cache)["same"]


@pytest.mark.parametrize("before", [*CHANGES[::EACH], *TRAINED])
def test_what_changed_before_the_first_call_is_seen(worker, folder, cache, before):
    assert worker(folder, cache, before)["same"]


@pytest.mark.parametrize("around", AROUND[::EACH])
def test_what_is_in_force_is_seen(worker, folder, cache, around):
    assert worker(folder, cache, IMPORTS, around)["same"]


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:-1] + b"?"]
)
def test_files_that_were_damaged_cost_time_alone(worker, folder, cache, damage):
    for path in sorted((cache / "kernels").iterdir()):
        data = path.read_bytes()
        path.unlink()  # it may be mapped
        path.write_bytes(damage(data))
        assert worker(folder, cache)["same"], path.name


STEPS = {
    "backward": "inside = 'backward'",
    "SGD": "inside = 'step'",
    "AdamW": "inside = 'step'; optimizer = lambda p: torch.optim.AdamW(p, 0.01)",
    "Adam one by one": "inside = 'step'; optimizer = lambda p: torch.optim.Adam(p, 0.01, foreach=False)",
    "Adagrad": "inside = 'step'; optimizer = lambda p: torch.optim.Adagrad(p, 0.01)",
    "RMSprop": "inside = 'step'; optimizer = lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5, centered=True)",
}


@pytest.mark.parametrize("step", STEPS)
def test_whole_steps_are_taken_up(worker, folder, tmp_path, step):
    first, second = (worker(folder, tmp_path, STEPS[step]) for _ in range(2))
    assert first["same"], first
    assert second["same"], second
    assert ["stored", ""] in first["outcomes"]
    assert second["compiled"] == 0, (first["outcomes"], second["outcomes"])
    taken = [outcome for outcome, _ in second["outcomes"] if outcome != "refused"]
    made_before = step in ("backward", "Adagrad")  # gradients that were None are no others; state that was there
    assert taken == ["taken up"] * (1 if made_before else 2), second["outcomes"]


OF_STEPS = [
    "optimizer = lambda p: torch.optim.SGD(p, 0.02, momentum=0.9)",
    "optimizer = lambda p: torch.optim.SGD(p, 0.01, momentum=0.5)",
    "optimizer = lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True)",
    "optimizer = lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.1)",
    "optimizer = lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, foreach=False)",
    "optimizer = lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, maximize=True)",
    "optimizer = lambda p: torch.optim.SGD(list(p)[::-1], 0.01, momentum=0.9)",
    "optimizer = lambda p: torch.optim.SGD(list(p)[:3], 0.01, momentum=0.9)",
    "optimizer = lambda p: torch.optim.SGD([{'params': [each]} for each in p], 0.01, momentum=0.9)",
    "optimizer = lambda p: torch.optim.AdamW(p, 0.01)",
    "net.lin.weight.requires_grad_(False)",
    "net.norm.weight = net.lin.bias",
    "net.norm.weight, net.norm.bias = net.norm.bias, net.norm.weight",
    "torch.optim.SGD.step = lambda self: None",
    "optim['sgd'].sgd = lambda *args, **named: None",
    "torch.optim.Optimizer.zero_grad = lambda self, set_to_none=True: None",
    "optim['optimizer'].register_optimizer_step_pre_hook(lambda o, a, k: None)",
    "net.lin.weight.register_hook(lambda g: g * 2)",
    "net.lin.weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3))",
    "net.lin.weight.grad = torch.ones(4, 4)",
    "net.double(); x = x.double()",
    "net.eval()",
    "torch.use_deterministic_algorithms(True)",
]


@pytest.fixture(scope="module")
def of_steps(worker, tmp_path_factory, written):
    path = tmp_path_factory.mktemp("steps")
    for each in ("backward", "SGD"):
        assert worker(written / "program", path, STEPS[each])["same"]
    return path


@pytest.mark.parametrize("inside", ["backward", "step"])
@pytest.mark.parametrize("before", OF_STEPS)
def test_what_changed_before_the_first_step_is_seen(worker, folder, of_steps, tmp_path, before, inside):
    shutil.copytree(of_steps, tmp_path / "cache")
    told = worker(folder, tmp_path / "cache", f"inside = {inside!r}\n{before}")
    assert told["same"], told


LAYERS = """
import torch
import compile_api

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
    def forward(self, x):
        h = self.up(self.norm(x)).tanh().mul(0.5).sigmoid().exp().neg().abs()
        return x + torch.nn.functional.dropout(self.down(h).relu().sin(), 0.3)

torch.manual_seed(0)
net = torch.nn.Sequential(*(Layer() for _ in range(9)))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
def step(x):
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()
call = compile_api.compile({}, options={{"warm_start": True, "strict": True}})
for _ in range(3):
    loss = {}
report = compile_api.report(call)
built = sum("take up" not in dict(graph.seconds) for graph in report.compiled)
seen = [loss, torch.get_rng_state().sum(), *(each.sum() for each in net.parameters())]
print([round(each.item(), 4) for each in seen], "layers" in str(report))
print(built, *(record.outcome for record in report.kept if record.outcome != "refused"))
"""
OUTSIDE = (
    "(lambda r: (r.backward(), optimizer.step(), optimizer.zero_grad(), r.detach())[3])(call(torch.ones(2, 8)).sum())"
)


@pytest.mark.parametrize("inside", [True, False])
def test_equal_layers_are_taken_up(tmp_path, inside):
    text = LAYERS.format(*(("step", "call(torch.ones(2, 8))") if inside else ("net", OUTSIDE)))
    (tmp_path / "program.py").write_text(text)
    env = {**os.environ, "COMPILE_API_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, str(tmp_path / "program.py")]
    told = [subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    (first, made), (second, taken) = (each.splitlines() for each in told)
    assert first == second
    assert first.endswith("True"), "its layers are compiled once"
    assert not made.startswith("0 ")
    assert taken == "0 taken up", taken
