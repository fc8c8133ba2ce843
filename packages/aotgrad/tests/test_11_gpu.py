"""The same on a CUDA device, where autograd runs backward in a thread of its own."""

import copy
import functools

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


def called(network, x, *weights):
    """What the network's forward comes to, with its weights as arguments."""
    batch = x.shape[0 if network.batch_first else 1]
    state = x.new_zeros(network.num_layers * (1 + network.bidirectional), batch, network.hidden_size)
    function = getattr(torch, network.mode.lower())
    return function(
        x, (state, state) if network.mode == "LSTM" else state, list(weights), network.bias, network.num_layers,
        network.dropout, network.training, network.bidirectional, network.batch_first,
    )  # fmt: skip


def compiled(network, **options):
    function = aotgrad.function(functools.partial(called, network), forward=aotgrad.run_eagerly, **options)
    return lambda x: function(x, *network.parameters())


def gradients_of(network, call, x, autocast):
    with torch.autocast("cuda", enabled=autocast):
        output, *last = call(x)
    last = last[0] if isinstance(last[0], tuple) else last
    loss = sum(result.float().sin().sum() for result in (output, *last))
    return [output, *last, *torch.autograd.grad(loss, [x, *network.parameters()])]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False}])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_are_those_of_cudnn(kind, options, autocast):
    network = kind(8, 16, **options).cuda()
    call = compiled(network, dynamic=True)
    for length in (40, 7, 9):
        x = torch.randn(length, 5, 8, device="cuda", requires_grad=True)
        ours, eager = gradients_of(network, call, x, autocast), gradients_of(network, network, x, autocast)
        assert [value.dtype for value in ours] == [value.dtype for value in eager]
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


def test_weights_that_lie_apart_and_weights_together():
    network, x = nn.GRU(8, 16, 2).cuda(), torch.randn(9, 5, 8, device="cuda", requires_grad=True)
    for parameter in network.parameters():
        parameter.data = parameter.data.clone()
    call = compiled(network)
    apart = gradients_of(network, call, x, False)
    network.flatten_parameters()
    torch.testing.assert_close(gradients_of(network, call, x, False), apart, rtol=1e-4, atol=1e-4)


def test_dropout_of_cudnn_is_the_same_in_backward_and_new_in_each_call():
    network, x = nn.GRU(8, 16, 2, dropout=0.5).cuda(), torch.randn(9, 5, 8, device="cuda", requires_grad=True)
    call = compiled(network)
    assert not torch.equal(call(x)[0], call(x)[0])
    (gradient,) = torch.autograd.grad(call(x)[0].sum(), network.bias_ih_l1)
    eager = [torch.autograd.grad(network(x)[0].sum(), network.bias_ih_l1)[0] for _ in range(50)]
    assert (gradient - torch.stack(eager).mean(0)).norm() < 0.5 * gradient.norm()
