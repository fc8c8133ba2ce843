"""Reductions, softmax and norms against eager."""

import pytest
import torch
import torch.nn.functional as F
from compiled import check
from torch._subclasses import FakeTensorMode

aten = torch.ops.aten
REDUCTIONS = {
    "sum": lambda x: (x.sum(), x.sum(0), x.sum(1, keepdim=True), x.sum((0, 2))),
    "mean": lambda x: (x.mean(), x.mean(-1), x.mean((0, 1), keepdim=True)),
    "prod": lambda x: (x.prod(), x.prod(1)),
    "amax": lambda x: (x.amax(), x.amax(0), x.amin((1, 2)), x.max(), x.min()),
    "max with place": lambda x: (*x.max(1), *x.min(0, keepdim=True)),
    "argmax": lambda x: (x.argmax(), x.argmax(0), x.argmin(2, keepdim=True)),
    "var": lambda x: (x.var(), x.var(0), x.std((1, 2)), *torch.var_mean(x, 1, correction=0), x.var(1, keepdim=True)),
    "any": lambda x: ((x > 0).any(), (x > 0).all(1), (x > 1).any(0, keepdim=True), x.any()),
    "logsumexp": lambda x: (torch.logsumexp(x, 1), torch.logsumexp(x, (0, 2), keepdim=True)),
    "norms": lambda x: (x.norm(), x.norm(1, dim=1), x.norm(float("inf"), dim=0), x.norm(3, dim=2), x.norm(0, dim=0)),
    "sum of ints": lambda x: ((x * 3).to(torch.int32).sum(), (x * 3).to(torch.int8).prod(0), (x > 0).sum(1)),
    "dtype": lambda x: (x.sum(dtype=torch.float64), x.mean(0, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(5, 3, 7), (1, 4, 1), (2, 1, 1), (1, 1, 1)])
def test_reductions(name, shape):
    if name == "var" and 1 in shape:
        shape = tuple(size + 1 for size in shape)
    check(REDUCTIONS[name], torch.randn(shape), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "var", "any", "argmax"])
def test_reductions_of_permuted_memory(name):
    check(REDUCTIONS[name], torch.randn(7, 3, 5).permute(2, 1, 0), exact_strides=False, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["sum", "mean", "amax"])
def test_reductions_of_bfloat16(name):
    check(REDUCTIONS[name], torch.randn(5, 3, 7).bfloat16())


def test_reductions_of_nothing():
    x = torch.randn(0, 3)
    check(lambda x: (x.sum(0), x.sum(1), x.sum(), x.prod(0), x.any(), x.all(0), x.mean()), x)


def test_reductions_of_zero_dimensional_tensors():
    check(lambda x: (x.sum(), x.mean(0), x.amax(), x.argmax(), x.var(correction=0)), torch.tensor(2.5))


def test_nan_wins_extremes():
    x = torch.tensor([[1.0, float("nan"), 3.0], [float("-inf"), 1.0, 1.0]])
    check(lambda x: (x.amax(1), x.amin(1), *x.max(1), x.argmin(1), x.argmax()), x)


def test_variance_is_stable_far_from_zero():
    check(lambda x: x.var(1), torch.randn(4, 1000) + 1e4, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("numbers", [torch.randn(8, 300) * 1e20, torch.randn(8, 300) / 100 + 1e5, torch.randn(8, 3)])
def test_variances_are_as_exact_as_eagers(numbers):
    """Of single precision on CPUs torch computes them in double precision."""
    check(lambda x: (x.std(1), x.std(0), x.std(), *torch.var_mean(x, 0)), numbers, rtol=1e-3, atol=0)


SOFTMAX = {
    "softmax": lambda x: (F.softmax(x, -1), F.softmax(x, 0)),
    "log_softmax": lambda x: (F.log_softmax(x, 1), F.log_softmax(x, 0)),
    "masked": lambda x: F.softmax(x.masked_fill(x > 0.5, float("-inf")), -1),
    "softmax backward": lambda x: aten._softmax_backward_data(x, F.softmax(x, 1), 1, x.dtype),
    "log_softmax backward": lambda x: aten._log_softmax_backward_data(x, F.log_softmax(x, 1), 1, x.dtype),
    "layer_norm": lambda x: (F.layer_norm(x, (7,)), F.layer_norm(x, (5, 7), x[0], x[1])),
    "layer_norm backward": lambda x: aten.native_layer_norm_backward(
        x, x * 2, [7], x.mean(-1, keepdim=True), x[..., :1].abs(), x[0, 0], x[1, 0], [True, True, True]
    ),
    "rms_norm": lambda x: F.rms_norm(x, (7,), x[0, 0]),
    "standardised": lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
}


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax_and_norms(name):
    check(SOFTMAX[name], torch.randn(3, 5, 7), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_softmax_and_norms_in_bfloat16(name):
    check(SOFTMAX[name], torch.randn(3, 5, 7).bfloat16(), atol=3e-2, rtol=3e-2)


def batch_norm_backward(x, w, m, v):
    mean, scale = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0).add(1e-5).rsqrt()
    mask = [True, True, True]
    return (
        *aten.native_batch_norm_backward(x * 2, x, w, m, v, mean, scale, True, 1e-5, mask),
        *aten.native_batch_norm_backward(x * 2, x, w, m, v, None, None, False, 1e-5, mask),
    )


BATCH = {
    "inference": lambda x, w, m, v: F.batch_norm(x, m, v, w, w),
    "training": lambda x, w, m, v: F.batch_norm(x, m, v, w, w, training=True),
    "functional": lambda x, w, m, v: aten._native_batch_norm_legit_functional(x, w, w, m, v, True, 0.1, 1e-5),
    "instance": lambda x, w, m, v: F.instance_norm(x, weight=w, bias=w),
    "group": lambda x, w, m, v: F.group_norm(x, 2, w, w),
    "backward": batch_norm_backward,
}


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize("channels_last", [False, True])
def test_batch_and_group_norm(name, channels_last):
    x = torch.randn(2, 6, 3, 5)
    x = x.contiguous(memory_format=torch.channels_last) if channels_last else x
    w, m, v = torch.randn(6), torch.randn(6), torch.rand(6) + 0.5
    if name == "group" and channels_last and not fake_group_norm_keeps_channels_last():
        pytest.xfail("this torch's fake of group norm is contiguous, its kernel's result is not")
    check(BATCH[name], x, w, m, v, atol=1e-4, rtol=1e-4)


def fake_group_norm_keeps_channels_last():
    with FakeTensorMode():
        x = torch.empty(2, 6, 3, 5).contiguous(memory_format=torch.channels_last)
        return F.group_norm(x, 2).stride() == x.stride()


LOSSES = {
    "cross_entropy": lambda x, y, k: (F.cross_entropy(x, k), F.cross_entropy(x, k, label_smoothing=0.1)),
    "nll": lambda x, y, k: F.nll_loss(F.log_softmax(x, 1), k, reduction="none"),
    "mse": lambda x, y, k: F.mse_loss(x, y),
    "smooth_l1": lambda x, y, k: (F.smooth_l1_loss(x, y), F.huber_loss(x, y), F.l1_loss(x, y)),
    "bce": lambda x, y, k: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "kl": lambda x, y, k: F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    check(LOSSES[name], torch.randn(5, 7), torch.randn(5, 7), torch.randint(0, 7, (5,)))


@pytest.mark.parametrize("layout", ["turned", "channels last", "expanded"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_lies_as_eagers_does(name, layout):
    """Also where the graph is traced again, as the other operator makes it."""
    x = torch.randn(2, 3, 4, 5)
    x = {
        "turned": x.mT,
        "channels last": x.to(memory_format=torch.channels_last),
        "expanded": x[:, :1].expand(x.shape),
    }[layout]
    for function in (getattr(torch, name), lambda x, dim: (getattr(torch, name)(x, dim), torch.celu(x))):
        check(lambda x: function(x, 1), x)
