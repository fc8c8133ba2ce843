"""Reductions of much to little are done in two steps on devices that want many programs."""

import dataclasses

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.ir.expr import Const
from inductor.ir.index import Index
from inductor.lowerings import reductions
from inductor.lowerings.splitting import chunks_of
from inductor.lowerings.values import Tensor


def tensor(*sizes, device="cuda"):
    return Tensor(tuple(map(Index.of, sizes)), torch.float32, torch.device(device), Const(0.0, torch.float32))


def test_few_long_rows_are_cut():
    assert chunks_of(tensor(1 << 22), "sum", [0]) == 1024
    assert chunks_of(tensor(4, 1 << 20), "max", [1]) == 256


def test_few_tall_columns_are_cut():
    assert chunks_of(tensor(4096, 768), "sum", [0]) == 32
    assert chunks_of(tensor(8, 512, 768), "sum", [0, 1]) == 32


@pytest.mark.parametrize(
    ("x", "kind", "dims"),
    [
        (tensor(4096, 1024), "sum", [1]),  # rows enough
        (tensor(1 << 22), "argmax", [0]),  # not associative
        (tensor(1000), "sum", [0]),  # short
        (tensor(64, 1 << 15), "sum", [0]),  # columns enough
        (tensor(64, 64, 64), "sum", [0, 2]),  # axes that are no neighbours
        (tensor(1 << 22, device="cpu"), "sum", [0]),
        (tensor(1000003), "sum", [0]),  # a prime number of elements
    ],
)
def test_others_are_not(x, kind, dims):
    assert chunks_of(x, kind, dims) == 1


PROGRAMS = {
    "sum": lambda x: (x * 2).sum(),
    "mean": lambda x: x.mean(),
    "rows": lambda x: x.sin().sum(1, keepdim=True),
    "largest": lambda x: x.amax(),
    "any": lambda x: (x > 4).any(),
    "columns": lambda x: x.sum(0),
    "middle": lambda x: (x.reshape(16, 2048, 4) + 1).sum(1, keepdim=True),
    "both axes kept": lambda x: x.sum((0, 1), keepdim=True),
}


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "half"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_steps_give_what_one_gives(name, layout, monkeypatch):
    on_gpu = lambda x, *rest: chunks_of(dataclasses.replace(x, device=torch.device("cuda")), *rest)
    monkeypatch.setattr(reductions, "chunks_of", on_gpu)
    x = torch.randn(16, 8192)
    x = x.t() if layout == "transposed" else x.bfloat16() if layout == "half" else x
    expected = PROGRAMS[name](x.double()).to(x.dtype if name != "any" else torch.bool)
    (found,) = inductor.compile(make_fx(PROGRAMS[name])(x), [x])(x)
    torch.testing.assert_close(found, expected, rtol=2e-2 if layout == "half" else 1e-4, atol=1e-2)
