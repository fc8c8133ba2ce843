"""Sizes that are computed from sizes, where these vary: resized images, sequences of which one is the longest."""

import itertools
import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

import compile_api

MODES = ("nearest", "bilinear")
SIZES = ((32, 32), (32, 40), (57, 91))
WANTED = {
    "a quotient": lambda x, mode: F.interpolate(x, (x.shape[-2] // 8, x.shape[-1] // 8), mode=mode),
    "corners": lambda x, mode: F.interpolate(x, (x.shape[-2] // 3, x.shape[-1] // 5), mode=mode, align_corners=True),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wanted", WANTED)
def test_images_of_computed_sizes(wanted, mode):
    if wanted == "corners" and mode == "nearest":
        return
    program = compile_api.compile(lambda x: WANTED[wanted](x, mode), fullgraph=True)
    for size in SIZES:
        x, other = (torch.linspace(0, 1, 6 * size[0] * size[1]).sin().view(2, 3, *size).requires_grad_() for _ in "xy")
        result, expected = program(x), WANTED[wanted](other, mode)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(*(torch.autograd.grad(y.sum(), z)[0] for y, z in ((result, x), (expected, other))))
    assert not compile_api.report(program).refused


@pytest.mark.parametrize("count", [2, 3, 5])
def test_sequences_are_padded_to_the_longest(count):
    """Whichever that is: rows of the result lie as far apart as it is long."""
    program = compile_api.compile(lambda parts: pad_sequence(parts, batch_first=True), fullgraph=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="graph_.* runs operator by operator: Max", category=UserWarning)
        for longest, order in itertools.product((9, 30, 17), (1, -1)):
            parts = [torch.arange(1, longest - 2 * index, dtype=torch.float32) for index in range(count)][::order]
            given = [part.clone().requires_grad_() for part in parts]
            result = program(given)
            assert torch.equal(result, pad_sequence(parts, batch_first=True))
            result.square().sum().backward()
            assert all(torch.equal(mine.grad, 2 * part) for mine, part in zip(given, parts, strict=True))


def put_together(i):
    """An image from windows of 3 by 3, each of them shifted by one row."""
    height = 5 + i % 3
    height += -height % 3
    windows = torch.randn(4 * height // 3, 9, 4)
    return windows.view(2, height // 3, 2, 3, 3, 4).transpose(2, 3).reshape(2, height, 6, 4).roll(1, 1)


def test_windows_that_are_put_together():
    """What is read where it was put lies in memory that nothing else may take meanwhile."""
    program = compile_api.compile(put_together, fullgraph=True)
    for i in range(4):
        torch.manual_seed(i)
        result = program(i)
        torch.manual_seed(i)
        assert torch.equal(result, put_together(i))
    assert not compile_api.report(program).refused


OVER_TOKENS = {
    "layer_norm": lambda t, w: F.layer_norm(t, (4,), w, w),
    "layer_norm of two": lambda t, w: F.layer_norm(t, (5, 4)),
    "rms_norm": lambda t, w: F.rms_norm(t, (4,), w),
    "group_norm": lambda t, w: F.group_norm(t.transpose(1, 2), 2, w, w),
    "batch_norm": lambda t, w: F.batch_norm(t.transpose(1, 2), None, None, w, w, training=True),
    "softmax": lambda t, w: t.softmax(1) * w,
    "log_softmax": lambda t, w: F.log_softmax(t, 1) * w,
    "gelu": lambda t, w: F.gelu(t) * w,
    "cumsum": lambda t, w: t.cumsum(1) * w,
    "prod": lambda t, w: t.prod(1) * w,
    "norm": lambda t, w: t.norm(dim=1) * w,
    "std": lambda t, w: t.std(1) * w,
    "amax": lambda t, w: t.amax(1) * w,
    "cross_entropy": lambda t, w: F.cross_entropy(t, t.detach().softmax(1)) * w,
    "smooth_l1": lambda t, w: F.smooth_l1_loss(t, t.detach() * 0.5 + w),
    "glu": lambda t, w: F.glu(t * w),
    "scores": lambda t, w: F.scaled_dot_product_attention(t, t * w, t),
    "max_pool": lambda t, w: F.max_pool1d(t * w, 2),
    "interpolate": lambda t, w: F.interpolate(t * w, 3, mode="linear"),
    "where": lambda t, w: torch.where(t > 0, t * w, t),
    "index": lambda t, w: t[:, torch.tensor([0, 2, 2])] * w,
    "gather": lambda t, w: t.gather(1, (t > 0).long()) * w,
    "flip": lambda t, w: t.flip(1) * w,
    "pad": lambda t, w: F.pad(t * w, (0, 1, 1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", OVER_TOKENS)
def test_one_size_in_two_ways(name):
    """A number of patches that an added table says is five: half of a graph's tensors know it by one, half by the
    other."""

    def program(x, first, table, w):
        patches = F.avg_pool2d(x, 4).flatten(2).transpose(1, 2)
        return OVER_TOKENS[name](torch.cat([first.expand(len(x), -1, -1), patches], 1) + table, w)

    compiled = compile_api.compile(program, dynamic=True)
    with warnings.catch_warnings(action="error"):
        for batch in (2, 3):
            given = [torch.randn(sizes, requires_grad=True) for sizes in ((batch, 4, 8, 8), (1, 1, 4), (1, 5, 4), (4,))]
            result, expected = compiled(*given), program(*given)
            torch.testing.assert_close(result, expected)
            weights = torch.randn_like(expected)
            gradients = [torch.autograd.grad(y, given, weights, allow_unused=True) for y in (result, expected)]
            torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("scale", [lambda n: n**0.5, lambda n: n**-0.5, math.sqrt, lambda n: 2 * math.sqrt(n)])
def test_a_root_of_a_size_is_no_zero(scale):
    compiled = compile_api.compile(lambda x: x / scale(x.shape[-1]), dynamic=True)
    for size in (4, 7):
        x = torch.randn(3, size)
        torch.testing.assert_close(compiled(x), x / scale(size))
    assert not compile_api.report(compiled).refused


def windows_together(x):
    """Windows of images of odd sizes put together again, as window attention does: the batch is computed in floats."""
    width, height = x.shape[2], x.shape[1]
    x = F.pad(x, (0, 0, 0, -width % 2, 0, -height % 2))
    _, tall, wide, channels = x.shape
    windows = x.view(-1, tall // 2, 2, wide // 2, 2, channels).transpose(2, 3).reshape(-1, 2, 2, channels).sin()
    batch = int(windows.shape[0] / (tall * wide / 2 / 2))
    x = windows.view(batch, tall // 2, wide // 2, 2, 2, -1).transpose(2, 3).reshape(batch, tall, wide, -1)
    return x[:, :height, :width]


def test_a_batch_that_is_computed_in_floats_divides_what_has_elements():
    compiled = compile_api.compile(windows_together)
    for sizes in ((2, 4, 6, 4), (2, 5, 7, 4), (3, 4, 6, 4), (4, 8, 8, 4)):
        x = torch.randn(sizes)
        torch.testing.assert_close(compiled(x), windows_together(x))
    assert not compile_api.report(compiled).refused


# Each with the rows of its two arguments: where the first has four or five, a computed size is one, and is broadcast.
ONES = {
    "first": lambda x, y: (x[:4].view(len(x) // 4, 4, 3) * 2 + y).sin(),
    "second": lambda x, y: y * 2 + x[:4].view(len(x) // 4, 4, 3).exp(),
    "where": lambda x, y: torch.where(x[:4].view(len(x) // 4, 4, 3) > 0, y * x.sum(), -y),
    "expand": lambda x, y: x[:4].view(len(x) // 4, 4, 3).expand(len(y), 4, 3) * y,
    "squeeze": lambda x, y: (x[:4] * 2).view(len(x) // 4, 4, 3).squeeze(0) * 2,
    "slice": lambda x, y: x[: len(x) // 4] * 2 + x[:3],
    "product": lambda x, y: (x[: len(x) // 4].exp() * 2).expand(4, 3) @ y[0].T,
    "repeat": lambda x, y: (x * 2).repeat_interleave(len(x) % 3, 0).sum(0) + x.exp().repeat_interleave(len(x) // 4, 1),
    "sum": lambda x, y: x[: len(x) // 4].exp().sum(0) + y.sum(0),
    "cat": lambda x, y: torch.cat([x[: len(x) // 4] * 2, x[:1]]) + x[:2].sin(),
    "stack": lambda x, y: torch.stack([y, y.sin() * x.sum()])[:, : len(x) // 4] + y,
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ONES)
def test_a_computed_size_turns_out_to_be_one(name, dynamic):
    compiled = compile_api.compile(ONES[name], dynamic=dynamic)
    with warnings.catch_warnings(action="error"):
        for rows, others in ((5, 2), (4, 3), (5, 4), (4, 5), (4, 2)):
            x, y = torch.randn(rows, 3, requires_grad=True), torch.randn(others, 4, 3)
            result, expected = compiled(x, y), ONES[name](x, y)
            torch.testing.assert_close(result, expected)
            torch.testing.assert_close(*(torch.autograd.grad(z.square().sum(), x)[0] for z in (result, expected)))
