"""Operators of the program's own, of which schemas say little: what they draw, give back and are given is eager's."""

import random

import pytest
import torch
import torch.nn.functional as F
from compiled import traced

import inductor


@pytest.fixture(scope="module")
def library():
    library = torch.library.Library("inductor_strange", "DEF")
    library.define("drawn(Tensor x) -> Tensor")
    library.define("same(Tensor x) -> Tensor")
    library.define("strides(Tensor x) -> Tensor")
    made = {"drawn": torch.rand_like, "same": lambda x: x, "strides": lambda x: torch.tensor(x.stride())}
    faked = {"strides": lambda x: torch.empty(x.ndim, dtype=torch.int64, device="meta")}
    for name, function in made.items():
        library.impl(name, function, "CPU")
        library.impl(name, faked.get(name, torch.empty_like), "Meta")
    yield torch.ops.inductor_strange
    library._destroy()


def compared(function, *inputs):
    compiled = inductor.compile(traced(function, *inputs), [*inputs])
    torch.manual_seed(7)
    expected = function(*inputs)
    torch.manual_seed(7)
    torch.testing.assert_close([*compiled(*inputs)], [*expected])


@pytest.mark.parametrize("seed", range(10))
def test_what_they_draw_keeps_its_place_among_torchs_draws(library, seed):
    draws = [
        lambda x: library.drawn(x),
        lambda x: library.drawn(x * 2) + x,
        lambda x: torch.rand(3) + x,
        lambda x: torch.rand_like(x),
        lambda x: F.dropout(x + 1),
        lambda x: torch.randn(3).exp(),
        lambda x: torch.bernoulli(x.abs().clamp(0, 1)),
    ]
    draw = random.Random(seed)
    chosen = [draw.choice(draws) for _ in range(6)]
    order = draw.sample(range(6), 6)

    def function(x):
        values = [each(x) for each in chosen]
        return values[order[0]] - values[order[1]], *(values[number] for number in order[2:])

    compared(function, torch.tensor([0.5, 0.25, 0.75]))


@pytest.mark.parametrize("size", [2, 100])
def test_what_they_give_back_is_not_written_over(library, size):
    def function(x):
        product = x @ x.t()
        kept = library.same(product)
        other = (x + 3) @ x.t()
        return kept * 1, other + other @ x.t()

    compared(function, torch.randn(size, size) / size)


REPEATED = {
    "rows": lambda x: (x + 1).expand(2, 3, 4),
    "columns": lambda x: (x[:, :1] * 2).expand(3, 5),
    "all": lambda x: x.sum().expand(2, 2),
    "turned": lambda x: (x.t() + 1)[None].expand(6, 4, 3),
    "an input": lambda x: x.expand(2, 3, 4),
    "a row": lambda x: x.mean(1, keepdim=True).expand_as(x),
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_is_repeated_is_given_once(library, name):
    def function(x):
        return library.strides(REPEATED[name](x)), library.same(REPEATED[name](x)) + 1

    compared(function, torch.randn(3, 4))
