"""Fake quantisation beside training: observers learn, and quantise, as in eager."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.ao.quantization as q
from torch import nn

import compile_api


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.act, self.out = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Linear(5, 2)
        self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm(self.conv(self.quant(x))))
        return self.dequant(self.out(x.mean((2, 3))))


def prepared(fused: bool, version: int) -> nn.Module:
    torch.manual_seed(0)
    model = Net().train()
    if fused:
        model = q.fuse_modules_qat(model, [["conv", "norm", "act"]])
    model.qconfig = q.get_default_qat_qconfig("fbgemm", version)
    return q.prepare_qat(model)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_steps_leave_the_state_that_eager_leaves(backend: str, fused: bool, version: int) -> None:
    eager = prepared(fused, version)
    ours = copy.deepcopy(eager)
    compiled = compile_api.compile(ours, backend=backend)
    for turn in range(4):
        if turn == 3:
            for model in (eager, ours):
                model.apply(q.disable_observer)
        x = torch.randn(4, 3, 6, 6)
        for model, call in ((eager, eager), (ours, compiled)):
            model.zero_grad()
            call(x).square().mean().backward()
        torch.testing.assert_close(ours.state_dict(), eager.state_dict())
        gradients = [{name: each.grad for name, each in model.named_parameters()} for model in (ours, eager)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
