"""How what is picked by positions and masks lies in memory: as torch's kernel lays it out, which fakes do not tell."""

import random

import pytest
import torch

import compile_api


def operand():
    """A tensor whose dimensions lie in any order, with gaps, of one element, expanded."""
    sizes = [random.choice((1, 2, 3, 4)) for _ in range(random.randint(2, 4))]
    order = random.sample(range(len(sizes)), len(sizes))
    memory = torch.randn([2 * sizes[dim] for dim in order])
    cut = memory[tuple(slice(0, 2 * sizes[dim], 2) if random.random() < 0.3 else slice(sizes[dim]) for dim in order)]
    x = cut.permute([order.index(dim) for dim in range(len(sizes))])
    if random.random() < 0.3:
        x = x.unsqueeze(random.randint(0, x.dim()))
    return x.expand(2, *x.shape) if random.random() < 0.1 else x


def positions(size, shape):
    """Positions that broadcast to a shape, contiguous or turned."""
    sizes = [1 if random.random() < 0.2 else each for each in shape[random.randint(0, len(shape) - 1) :]]
    index = torch.randint(size, sizes)
    return index.mT.contiguous().mT if index.dim() > 1 and random.random() < 0.4 else index


def indexed():
    """An operand, and what picks from it along some of its dimensions: positions, or one mask."""
    x = operand()
    if random.random() < 0.25:
        first = random.randint(0, x.dim() - 1)
        mask = torch.rand(x.shape[first : random.randint(first + 1, x.dim())]) < 0.7
        if mask.sum() == 1:  # what is picked lies otherwise where data tells that it is one (docs/faq.md)
            mask = torch.zeros_like(mask)
        return x, (*[slice(None)] * first, mask)
    shape = [random.choice((1, 2, 3)) for _ in range(random.randint(1, 3))]
    index = [positions(size, shape) if random.random() < 0.5 else slice(None) for size in x.shape]
    return x, tuple(index) if any(isinstance(each, torch.Tensor) for each in index) else (positions(len(x), shape),)


def strides(x):
    """Those that say where elements are."""
    return [(dim, step) for dim, (size, step) in enumerate(zip(x.shape, x.stride(), strict=True)) if size != 1]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("backend", "count"), [("eager", 60), ("aot_eager", 60), ("inductor", 6)])
def test_it_lies_as_in_eager(backend, count, dynamic):
    def program(x, *index):
        picked = x[index]
        return picked + 1, picked.stride()

    for _ in range(count):
        x, index = indexed()
        compile_api.reset()
        found, told = compile_api.compile(program, backend=backend, dynamic=dynamic)(x, *index)
        expected = x[index] + 1
        assert found.equal(expected)
        if found.numel():
            assert strides(found) == strides(expected), (x.shape, x.stride(), index)
            assert dict(strides(found)).items() <= dict(enumerate(told)).items(), (x.shape, x.stride(), index)


LAYOUTS = {
    "turned": lambda n: torch.randn(n, 4, 3).permute(1, 2, 0),
    "turned, with gaps": lambda n: torch.randn(n, 4, 6).permute(1, 2, 0)[:, ::2],
    "the second dimension last": lambda n: torch.randn(n, 4, 3).mT,
    "the first dimension last": lambda n: torch.randn(4, 3, n).permute(2, 0, 1),
}
OPERATORS = {
    "logsigmoid": torch.nn.functional.logsigmoid,
    "angles": lambda x: torch.complex(x, x).angle() + 1,
    "logaddexp": lambda x: torch.logaddexp(x, x.clone(memory_format=torch.contiguous_format)),
    "batch norm": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
    "elu": torch.nn.functional.elu,
    "roll": lambda x: x.roll(1, 1),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_of_sizes_that_vary_lie_as_in_eager(layout, backend):
    def program(x):
        return [operator(x) for operator in OPERATORS.values()]

    compiled = compile_api.compile(program, backend=backend)
    for size in (4, 5, 7):
        x = LAYOUTS[layout](size)
        wrong = [
            (name, found.stride(), expected.stride())
            for name, found, expected in zip(OPERATORS, compiled(x), program(x), strict=True)
            if strides(found) != strides(expected)
        ]
        assert wrong == []
