"""Parts of programs that are measured: a function and its inputs, made for a device."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.program import Call, Program, case, inference


@case
def tiny_add(device: str) -> Program:
    """The cost of a call: x + 1 on 8 floats."""
    return inference(lambda x: x + 1, torch.randn(8, device=device))


@case
def pointwise_chain(device: str) -> Program:
    """Six operators that eager writes to memory between one another: the gain of fusion where nothing else counts."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.gelu(x * torch.sigmoid(y) + torch.tanh(x - y)) * 0.5 + torch.cos(x)

    return inference(f, torch.randn(4 << 20, device=device), torch.randn(4 << 20, device=device))


@case
def gelu_bfloat16(device: str) -> Program:
    """Half the bytes, and the error function in float32 all the same."""
    return inference(lambda x: F.gelu(x), torch.randn(4 << 20, device=device, dtype=torch.bfloat16))


@case
def masked_softmax(device: str) -> Program:
    """A reduction with what comes before it, as attention has it where no fused kernel fits."""

    def f(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.masked_fill(mask, float("-inf")) * 0.125, dim=-1)

    return inference(f, torch.randn(4096, 1024, device=device), torch.rand(4096, 1024, device=device) < 0.1)


@case
def layer_norm_residual_gelu(device: str) -> Program:
    """Operators before and behind a reduction along rows: one kernel, or three."""

    def f(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.layer_norm(x + residual, (1024,), weight, bias))

    x = torch.randn(4096, 1024, device=device)
    return inference(f, x, torch.randn_like(x), torch.randn(1024, device=device), torch.randn(1024, device=device))


@case
def rms_norm_swiglu(device: str) -> Program:
    """A normalization that is written out, as Llama's models do: no operator of torch's to recognise."""

    def f(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
        return F.silu(gate) * normed

    x = torch.randn(4096, 1024, device=device)
    return inference(f, x, torch.randn_like(x), torch.randn(1024, device=device))


@case
def transpose_add(device: str) -> Program:
    """Two operands in different orders: what is read across has to go through tiles."""
    return inference(
        lambda x, y: x.t() + y, torch.randn(2048, 2048, device=device), torch.randn(2048, 2048, device=device)
    )


@case
def column_sum(device: str) -> Program:
    """A reduction across rows: neighbours in memory belong to different sums."""
    return inference(lambda x: (x * 2).sum(0), torch.randn(4096, 1024, device=device))


@case
def full_sum(device: str) -> Program:
    """One number of many: all cores, or all blocks of a GPU, have a part in it."""
    return inference(lambda x: x.square().sum(), torch.randn(4 << 20, device=device))


@case
def cross_entropy_training(device: str) -> Program:
    """Forward and backward over 8000 classes."""
    logits = torch.randn(1024, 8000, device=device, requires_grad=True)
    labels = torch.randint(0, 8000, (1024,), device=device)

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, labels)

    def step(call: Call) -> torch.Tensor | None:
        logits.grad = None
        call(logits, labels).backward()
        return logits.grad

    return Program(loss, step, training=True)


@case
def mlp(device: str) -> Program:
    """Products that a library computes, with something in between that it does not."""
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to(device)
    return inference(model, torch.randn(256, 512, device=device))


@case
def adam_step(device: str) -> Program:
    """One step of Adam over 50 parameters."""
    shapes = [(256, 256), (1024,), (64, 3, 7, 7), (512, 128), (512,)] * 10
    parameters = [nn.Parameter(torch.randn(shape, device=device)) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.Adam(parameters, lr=1e-3)

    def step() -> None:
        optimizer.step()

    def run(call: Call) -> list[torch.Tensor]:
        call()
        return [parameter.detach() for parameter in parameters]

    return Program(step, run)


@case
def lstm_training(device: str) -> Program:
    """Many small kernels: one layer written out in Python over 16 steps."""
    cell = nn.LSTMCell(32, 32).to(device)
    x = torch.randn(16, 4, 32, device=device)

    def unrolled(x: torch.Tensor) -> torch.Tensor:
        hidden = state = torch.zeros(4, 32, device=x.device)
        for part in x:
            hidden, state = cell(part, (hidden, state))
        return hidden

    def step(call: Call) -> torch.Tensor:
        cell.zero_grad(set_to_none=True)
        loss = call(x).square().mean()
        loss.backward()
        return loss.detach()

    return Program(unrolled, step, training=True)
