"""Operators over tensors without elements: shapes, types, what is refused and what has a gradient, as in eager."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import compile_api

SHAPES = [(0, 4, 4, 4), (2, 0, 4, 4), (2, 4, 0, 4), (2, 4, 4, 0), (4, 0, 4), (4, 4, 0), (0, 4)]
OPERATORS = {
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "fold": lambda x: F.fold(x, (4, 4), 2),
    "unfold": lambda x: F.unfold(x, 2),
    "roll": lambda x: x.roll((1, 2), (0, -1)),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate linearly": lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
    "interpolate between four": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "interpolate between sixteen": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "pad": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: x.softmax(-1),
    "mean": lambda x: x.mean(-1),
    "largest": lambda x: x.amax(0),
    "products": lambda x: x @ x.mT,
    "embedding": lambda x: F.embedding(x.long(), torch.ones(3, 2)),
    "cross_entropy": lambda x: F.cross_entropy(x, x),
    "group_norm": lambda x: F.group_norm(x, 2),
    "conv2d": lambda x: F.conv2d(x, torch.ones(2, x.shape[1], 2, 2)),
}
REFUSED = {"pixel_shuffle", "pixel_unshuffle", "interpolate", "largest"}
if torch.__version__ >= "2.13":
    REFUSED.add("cross_entropy")
"""Exactly those that eager refuses of some shapes, and torch's fakes of others, on every backend: CPython runs them."""


def outcome(function, shape, followed):
    x = torch.empty(shape, requires_grad=followed)
    try:
        result, size = function(x)
        if result.requires_grad:
            result.sum().backward()
    except (RuntimeError, ValueError, IndexError, NotImplementedError, AssertionError) as error:
        return type(error)
    return result.shape, size, result.dtype, result.tolist(), None if x.grad is None else x.grad.shape


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_nothing_comes_out_as_in_eager(name, followed, backend):
    def program(x):
        result = OPERATORS[name](x)
        return result, result.shape

    breaks = False
    for shape in SHAPES:
        compile_api.reset()
        compiled = compile_api.compile(program, backend=backend)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = outcome(program, shape, followed)
            found = outcome(compiled, shape, followed)
        assert str(found) == str(expected), shape
        breaks |= bool(compile_api.report(compiled).breaks)
    assert breaks == (name in REFUSED), "add it to the list, or take it off"
