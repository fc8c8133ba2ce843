"""What one process compiled is trained by the next one, as long as nothing has changed that matters."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "warm_start"))

from processes import AROUND, CHANGES, IMPORTS, STORED, TEXTS, Worker, as_it_was, changed

FIRST = "net.train(); net.drop = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))"

TRAINED = [
    "net.lin.weight.requires_grad_(False)",
    "net.lin.requires_grad_(False); net.norm.requires_grad_(False)",
    "net.drop[0].requires_grad_(False)",
    "net.norm.weight.requires_grad_(False); net.norm.bias.requires_grad_(False)",
    "net.requires_grad_(False)",
    "net.lin.weight.register_hook(lambda g: g * 2)",
    "net.lin.weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3))",
    "net.lin.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))",
    "net.lin.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))",
    "torch.nn.modules.module.register_module_full_backward_hook(lambda m, gi, go: None)",
    "net.lin.weight.grad = torch.ones(4, 4)",
    "net.drop[0].momentum = 0.5",
    "net.drop[0].momentum = None",
    "net.drop[0].eval()",
    "net.drop[0].running_mean = None; net.drop[0].running_var = None",
    "net.drop[0].running_mean.add_(1)",
    "net.drop[0].num_batches_tracked.fill_(7)",
    "net.drop[0].double()",
    "net.drop[1].p = 0.25",
    "net.drop[1].p = 0.0",
    "net.drop[1].inplace = True",
    "net.eval()",
    "net.half()",
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


@pytest.mark.parametrize(("file", "old", "new"), TEXTS)
def test_source_that_changed_is_seen(worker, folder, cache, file, old, new):
    changed(file, old, new, folder)
    assert worker(folder, cache)["same"]


@pytest.mark.parametrize("before", [*CHANGES, *TRAINED])
def test_what_changed_before_the_first_call_is_seen(worker, folder, cache, before):
    assert worker(folder, cache, before)["same"]


@pytest.mark.parametrize("around", AROUND)
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
