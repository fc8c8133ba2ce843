"""What is measured: a table of programs, each made for a device.  A case returns the function and its inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from models.resnet import resnet18

Program: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
Case: TypeAlias = Callable[[str], Program]

CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


@case
def tiny_add(device: str) -> Program:
    """The cost of a call: x + 1 on 8 floats."""
    return lambda x: x + 1, (torch.randn(8, device=device),)


@case
def pointwise_chain(device: str) -> Program:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.gelu(x * torch.sigmoid(y) + torch.tanh(x - y)) * 0.5 + torch.cos(x)

    return f, (torch.randn(4 << 20, device=device), torch.randn(4 << 20, device=device))


@case
def masked_softmax(device: str) -> Program:
    def f(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.masked_fill(mask, float("-inf")) * 0.125, dim=-1)

    return f, (torch.randn(4096, 1024, device=device), torch.rand(4096, 1024, device=device) < 0.1)


@case
def layer_norm_residual_gelu(device: str) -> Program:
    def f(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.layer_norm(x + residual, (1024,), weight, bias))

    x = torch.randn(4096, 1024, device=device)
    return f, (x, torch.randn_like(x), torch.randn(1024, device=device), torch.randn(1024, device=device))


@case
def rms_norm_swiglu(device: str) -> Program:
    def f(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
        return F.silu(gate) * normed

    x = torch.randn(4096, 1024, device=device)
    return f, (x, torch.randn_like(x), torch.randn(1024, device=device))


@case
def transpose_add(device: str) -> Program:
    return lambda x, y: x.t() + y, (torch.randn(2048, 2048, device=device), torch.randn(2048, 2048, device=device))


@case
def column_sum(device: str) -> Program:
    return lambda x: (x * 2).sum(0), (torch.randn(4096, 1024, device=device),)


@case
def full_sum(device: str) -> Program:
    return lambda x: x.square().sum(), (torch.randn(4 << 20, device=device),)


@case
def mlp(device: str) -> Program:
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to(device)
    return model, (torch.randn(256, 512, device=device),)


@case
def resnet18_inference(device: str) -> Program:
    return resnet18().to(device).eval(), (torch.randn(16, 3, 128, 128, device=device),)
