"""The same on a CUDA device, where autograd runs backward in a thread of its own."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import aotgrad

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def steps(module, call, x, autocast):
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            loss = call(x).float().square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("partition", [aotgrad.default_partition, aotgrad.min_cut_partition])
def test_training_follows_eager(partition, autocast):
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(8 * 36, 16),
        nn.LayerNorm(16),
    ).cuda()
    twin, x = copy.deepcopy(module), torch.randn(4, 3, 8, 8, device="cuda")
    compiled = aotgrad.module(module, forward=aotgrad.run_eagerly, partition=partition)
    tolerance = 5e-2 if autocast else 1e-3
    ours, theirs = steps(module, compiled, x, autocast), steps(twin, twin, x, autocast)
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_dropout_mask_is_that_of_eager():
    x = torch.randn(100, device="cuda", requires_grad=True)
    program = lambda x: F.dropout(x, 0.5) * x
    torch.cuda.manual_seed(0)
    expected = program(x)
    torch.cuda.manual_seed(0)
    torch.testing.assert_close(aotgrad.function(program, forward=aotgrad.run_eagerly)(x), expected)


def test_attention(same_as_eager):
    def program(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    qkv = [torch.randn(2, 4, 16, 8, device="cuda", requires_grad=True) for _ in range(3)]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        same_as_eager(program, *qkv)


def test_core_decompositions(same_as_eager):
    program = lambda x: F.layer_norm(F.gelu(x).softmax(-1), (8,)).sum(0)
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    same_as_eager(program, x, decompositions=aotgrad.decompositions.core())
