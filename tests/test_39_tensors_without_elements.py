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


FUSED = {  # a product makes memory of its own, which what is fused behind it reads
    "a loss": lambda y: y.square().mean(),
    "sums along each": lambda y: [y.exp().sum(dim) for dim in (0, 1, (0, 1))],
    "products and counts": lambda y: [y.prod(1), (y > 0).any(0), (y > 0).all(1), (y > 0).sum()],
    "written and summed": lambda y: [z := y.tanh() * 2, z.sum(0), z.sum(1), z.mT.contiguous()],
    "a norm": lambda y: y / y.norm(dim=0, keepdim=True),
    "a window": lambda y: y[:, :1].flip(0) + y.sum(0),
}


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (0, 3), (1, 3)], ids=str)
@pytest.mark.parametrize("columns", [0, 1, 2])
@pytest.mark.parametrize("name", FUSED)
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_nothing_is_read_where_there_is_nothing(name, columns, shape):
    def step(x, linear):
        loss = sum(each.float().sum() for each in torch.utils._pytree.tree_leaves(FUSED[name](linear(x))))
        loss.backward()
        return loss

    outcomes = []
    for function in (step, compile_api.compile(step)):
        torch.manual_seed(0)
        linear = torch.nn.Linear(3, columns)
        outcomes.append(
            [(function(torch.ones(shape), linear).detach(), *map(grad, linear.parameters())) for _ in "123"]
        )
    torch.testing.assert_close(*outcomes, equal_nan=True)


def grad(parameter):
    return parameter.grad.clone()
