"""Reductions of much to little are done in two steps on devices that want many programs."""

import dataclasses

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.ir.expr import Const, Load
from inductor.ir.index import Index
from inductor.lowerings import splitting
from inductor.lowerings.splitting import cut_of
from inductor.lowerings.values import Tensor, positions


def tensor(*sizes, device="cuda"):
    return Tensor(tuple(map(Index.of, sizes)), torch.float32, torch.device(device), Const(0.0, torch.float32))


def chunks_of(x, kind, dims):
    cut = cut_of(x, [kind], dims)
    return 1 if cut is None else cut.chunks


def test_few_long_rows_are_cut():
    assert chunks_of(tensor(1 << 22), "sum", [0]) == 512
    assert chunks_of(tensor(4, 1 << 20), "max", [1]) == 128


def test_few_tall_columns_are_cut():
    assert chunks_of(tensor(4096, 768), "sum", [0]) == 16
    assert chunks_of(tensor(8, 512, 768), "sum", [0, 1]) == 16


def test_axes_need_not_be_neighbours():
    cut = cut_of(tensor(32, 64, 56, 56), ["welford"], [0, 2, 3])
    assert (cut.first, cut.then, cut.chunks) == ((1, 3, 4), (0,), 8)
    assert [size.as_int() for size in cut.sizes] == [8, 4, 64, 56, 56]


def test_where_channels_are_innermost_they_are_columns():
    sizes = _, c, h, w = (32, 256, 56, 56)
    steps = (h * w * c, 1, w * c, c)
    place = sum((at * step for at, step in zip(positions(tuple(map(Index.of, sizes))), steps)), Index.of(0))
    image = dataclasses.replace(tensor(*sizes), expr=Load("x", place, torch.float32))
    cut = cut_of(image, ["sum", "sum"], [0, 2, 3])
    assert (cut.first, cut.then, cut.chunks) == ((3, 4), (0, 2), 64)


@pytest.mark.parametrize(
    ("x", "kind", "dims"),
    [
        (tensor(4096, 1 << 16), "sum", [1]),  # rows enough
        (tensor(1 << 22), "argmax", [0]),  # not associative
        (tensor(1000), "sum", [0]),  # short
        (tensor(1 << 15, 256), "sum", [1]),  # columns enough
        (tensor(4, 8192), "sum", [1]),  # fits into registers, where what follows has it
        (tensor(1 << 22, device="cpu"), "sum", [0]),
        (tensor(1000003), "sum", [0]),  # a prime number of elements
    ],
)
def test_others_are_not(x, kind, dims):
    assert chunks_of(x, kind, dims) == 1


PROGRAMS = {
    "sum": lambda x: (x * 2).sum(),
    "mean": lambda x: x.mean(),
    "rows": lambda x: x.sin().reshape(4, -1).sum(1, keepdim=True),
    "largest": lambda x: x.amax(),
    "any": lambda x: (x > 4).any(),
    "columns": lambda x: x.reshape(-1, 16).sum(0),
    "middle": lambda x: (x.reshape(16, -1, 4) + 1).sum(1, keepdim=True),
    "both axes kept": lambda x: x.sum((0, 1), keepdim=True),
    "variance": lambda x: x.var(),
    "variances of columns": lambda x: torch.cat([*torch.var_mean(x.reshape(-1, 8) + 100, 0, keepdim=True)]),
    "outer axes": lambda x: (x.reshape(128, 4, -1) * 3).var((0, 2), correction=0),
}


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "half"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_steps_give_what_one_gives(name, layout, monkeypatch):
    cut = []

    def on_gpu(x, *rest):
        cut.append(cut_of(dataclasses.replace(x, device=torch.device("cuda")), *rest))
        return cut[-1]

    monkeypatch.setattr(splitting, "cut_of", on_gpu)
    x = torch.randn(16, 1 << 15)
    x = x.t() if layout == "transposed" else x.bfloat16() if layout == "half" else x
    expected = PROGRAMS[name](x.double()).to(x.dtype if name != "any" else torch.bool)
    (found,) = inductor.compile(make_fx(PROGRAMS[name])(x), [x])(x)
    assert all(cut)
    torch.testing.assert_close(found, expected, rtol=2e-2 if layout == "half" else 1e-4, atol=1e-2)


def test_a_variance_far_from_zero_keeps_its_digits(monkeypatch):
    monkeypatch.setattr(
        splitting, "cut_of", lambda x, *rest: cut_of(dataclasses.replace(x, device=torch.device("cuda")), *rest)
    )
    x = torch.randn(1 << 16, dtype=torch.float64) * 0.01 + 1000
    (found,) = inductor.compile(make_fx(lambda x: x.var())(x.float()), [x.float()])(x.float())
    torch.testing.assert_close(found, x.float().double().var().float(), rtol=1e-3, atol=0)
