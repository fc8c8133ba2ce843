"""Whole networks: outputs, gradients, buffers, as eager has them."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import aotgrad


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        q, k, v = (part.view(2, 5, 4, 4).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2, -1).masked_fill(torch.eye(5).bool(), 0.0)
        return x + (weights @ v).transpose(1, 2).reshape(2, 5, 16)


class FusedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = (part.view(2, 5, 4, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 5, 16)


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(16, 16)

    def forward(self, x):
        h = c = torch.zeros(2, 16)
        steps = []
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
            steps.append(h)
        return torch.stack(steps, 1)


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 16, padding_idx=0)
        self.out = nn.Linear(16, 7, bias=False)
        self.out.weight = self.table.weight

    def forward(self, x):
        tokens = (x[..., 0].abs() * 3).long().clamp(max=6)
        logits = self.out(self.table(tokens))
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), label_smoothing=0.1)


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.Sigmoid())


def convolutions():
    return nn.Sequential(
        nn.Unflatten(1, (1, 5)), nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
        nn.MaxPool2d(2), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


NETWORKS = [mlp, convolutions, Attention, FusedAttention, Loop, Embedded, lambda: nn.LSTM(16, 8, batch_first=True)]


def train(module, call, steps=3):
    """A few steps of SGD: losses and the final state."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        result = call(torch.randn(2, 5, 16))
        result = result[0] if isinstance(result, tuple) else result
        loss = result.square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), module.state_dict()


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("partition", [aotgrad.default_partition, aotgrad.min_cut_partition])
def test_training_follows_eager(network, partition):
    torch.manual_seed(0)
    module = network()
    twin = copy.deepcopy(module)
    compiled = aotgrad.module(module, forward=aotgrad.run_eagerly, partition=partition)
    torch.testing.assert_close(train(module, compiled), train(twin, twin))


@pytest.mark.parametrize("network", NETWORKS)
def test_evaluation_is_equal(network):
    module = network().eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        torch.testing.assert_close(aotgrad.module(module, forward=aotgrad.run_eagerly)(x), module(x), rtol=0, atol=0)


def test_training_mode_is_part_of_the_call():
    module = nn.Sequential(nn.Dropout(0.5))
    compiled = aotgrad.module(module, forward=aotgrad.run_eagerly)
    x = torch.ones(100)
    assert (compiled(x) == 0).any()
    module.eval()
    torch.testing.assert_close(compiled(x), x)


def test_instance_norm_updates_its_statistics(same_as_eager):
    def program(x, mean, var, weight):
        return F.instance_norm(x, mean, var, weight, use_input_stats=True)

    same_as_eager(program, torch.randn(2, 3, 4), torch.zeros(3), torch.ones(3), torch.ones(3, requires_grad=True))


def test_running_statistics_are_not_saved(graphs_of):
    def program(x, mean, var):
        return F.batch_norm(x, mean, var, training=True)

    forward, _ = graphs_of(program, torch.randn(4, 3, requires_grad=True), torch.zeros(3), torch.ones(3))
    assert len(forward.output_node().args[0]) == 2 + 1 + 3


def test_frozen_parameters_get_no_gradient():
    module = mlp()
    module[0].requires_grad_(False)
    aotgrad.module(module, forward=aotgrad.run_eagerly)(torch.randn(2, 16)).sum().backward()
    assert module[0].weight.grad is None
    assert module[2].weight.grad is not None


def test_a_module_that_replaces_a_buffer_is_refused():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count = self.count + 1
            return x * self.count

    with pytest.raises(aotgrad.Unsupported, match="assigns a new tensor to count"):
        aotgrad.module(Counter(), forward=aotgrad.run_eagerly)(torch.ones(2))


def test_an_optimizer_step_updates_parameters_in_place():
    def step(params, grads):
        with torch.no_grad():
            torch._foreach_add_(params, grads, alpha=-0.1)

    ours, theirs = ([torch.ones(3, requires_grad=True) for _ in range(2)] for _ in range(2))
    grads = [torch.arange(3.0), torch.ones(3)]
    aotgrad.function(step, forward=aotgrad.run_eagerly)(ours, grads)
    step(theirs, grads)
    torch.testing.assert_close(ours, theirs)
