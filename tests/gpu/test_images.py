"""Training of convolutions in half precision on a GPU, where images lie with their channels innermost."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import compile_api
import inductor

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 32, 5, 2, 2, bias=False), nn.BatchNorm2d(32)
        self.inner, self.outer = nn.Conv2d(32, 64, 3, padding=1, groups=8), nn.Conv2d(32, 64, 1)
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(self.norm(self.first(x)).relu(), 3, 2, 1)
        x = (self.inner(x) + self.outer(x)).relu()
        return x, self.last(x.mean((2, 3)))


@pytest.fixture
def setting():
    torch.manual_seed(0)
    return Net().cuda(), torch.randn(8, 3, 64, 64, device="cuda")


def gradients(model, call, x, dtype):
    """Everything a step gives: results, gradients, running statistics."""
    model.zero_grad()
    image, logits = call(x.to(dtype))
    (logits.float().square().mean() + image.float().mean()).backward()
    return [image.detach(), logits.detach(), *(p.grad for p in model.parameters()), model.norm.running_var]


def off(found, exact):
    return ((found.double() - exact).norm() / exact.norm()).item()


def check(model, x, compiled_of):
    exact = gradients(twin := copy.deepcopy(model).double(), twin, x, torch.float64)
    theirs = gradients(twin := copy.deepcopy(model).bfloat16(), twin, x, torch.bfloat16)
    ours = gradients(twin := copy.deepcopy(model).bfloat16(), compiled_of(twin), x, torch.bfloat16)
    for mine, its, true in zip(ours, theirs, exact, strict=True):
        assert mine.stride() == its.stride()
        assert off(mine, true) < 2 * off(its, true) + 5e-3


def test_a_step_is_as_close_as_eager_s(setting):
    check(*setting, lambda model: compile_api.compile(model, options={"strict": True}))


def test_under_autocast(setting):
    model, x = setting
    reference = copy.deepcopy(model)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        theirs = gradients(reference, reference, x, torch.float32)
        ours = gradients(model, compile_api.compile(model, options={"strict": True}), x, torch.float32)
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.stride() == its.stride()
        assert off(mine, its.double()) < 0.2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("broken", [0, 1])
def test_one_half_that_cannot_be_built(setting, monkeypatch, broken):
    """The other half is compiled, and what they hand over lies otherwise than eager lays it."""
    run, count = inductor.pipeline.run, iter(range(100))

    def breaking(work, *rest):
        if next(count) == broken:
            raise inductor.BuildError("no compiler")
        return run(work, *rest)

    monkeypatch.setattr("inductor.api.pipeline.run", breaking)
    check(*setting, compile_api.compile)
