"""Results share memory with arguments and with one another where eager's do, and nowhere else.

For every operator that torch has samples for, also where there is nothing to be done.

By default a part of the operators, another one in each run; INDUCTOR_ALL_SAMPLES=1 runs all of them.
"""

import itertools
import os
import random

import pytest
import torch
from compiled import copied, traced
from operator_samples import OPERATORS, batches, built, samples
from torch.utils import _pytree as pytree

import inductor

CASES = [op for op in OPERATORS if op.supports_dtype(torch.float32, "cpu")]
PARTS = 12 if "INDUCTOR_ALL_SAMPLES" in os.environ else 1
TOGETHER = 24


def shared(inputs, results):
    """For each result the first tensor, of the inputs and the results, that lies in the same memory."""
    memory = [each.untyped_storage().data_ptr() if kept(each) else None for each in [*inputs, *results]]
    return [memory.index(place) if place else None for place in memory[len(inputs) :]]


def kept(value):
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and value.numel() > 0


def compared(batch):
    """The samples as one graph; those of which a result shares memory with other tensors than eager's does."""
    inputs = [copied(tensor) for sample in batch for tensor in sample.tensors]
    counts = []

    def together(*given):
        rest, results = iter(given), []
        counts.clear()
        for sample in batch:
            values = pytree.tree_leaves(sample.call(list(itertools.islice(rest, len(sample.places)))))
            counts.append(len(values))
            results += values
        return results

    with torch.no_grad():
        compiled = built(together, inputs)
        expected = shared(inputs, together(*inputs))
        again = [copied(tensor) for tensor in inputs]
        found = shared(again, compiled(*again))
    ends = list(itertools.accumulate(counts))
    for sample, start, end in zip(batch, [0, *ends], ends, strict=False):
        if expected[start:end] != found[start:end]:
            yield f"{sample}: {found[start:end]}, eager: {expected[start:end]}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_operator(part):
    draw = random.Random(part if PARTS > 1 else None)
    given = []
    for op in CASES[part::PARTS] if PARTS > 1 else draw.sample(CASES, TOGETHER // 2):
        every = list(itertools.islice(samples(op, torch.float32), 40))
        given += draw.sample(every, min(2, len(every)))
    assert [text for batch in batches(given, TOGETHER) for text in compared(batch)] == []


X = torch.arange(12.0).view(3, 4)
IDLE = {
    "all of it replaced": lambda x, y: torch.slice_scatter(x, y),
    "all of it replaced by a result": lambda x, y: (lambda z: (torch.slice_scatter(x, z), z))(y * 2),
    "written whole": lambda x, y: x.clone().copy_(y),
    "as large as it is": lambda x, y: (y.repeat(1, 1), y.roll(0), torch.nn.functional.pad(y, (0, 0)), y.flip(())),
    "one tensor": lambda x, y: (torch.cat([y]), torch.hstack([y]), torch.block_diag(y)),
    "over one element": lambda x, y: (y[None].sum(0), y[None].amax(0), y[None].prod(0), y[None].logsumexp(0)),
    "along one element": lambda x, y: (y[None].cumsum(0), y[None].sort(0)[0], y[None].mode(0)[0], y[None].flip(0)),
    "all of it": lambda x, y: (y.tril(9), y.triu(-9), y.masked_fill(torch.zeros(4) > 0, 1), +y, y.positive()),
    "of the same type": lambda x, y: (y.float(), y.to(torch.float32, copy=True), y.type_as(x), y.double().float()),
    "of no effect": lambda x, y: (y.pow(1), y * 1, y + 0, torch.nn.functional.dropout(y, 0.0)),
    "of integers": lambda x, y: (lambda n: (n.floor(), n.round(), n.ceil(), n.trunc(), n.conj()))(y.long()),
    "images": lambda x, y: [
        f(y[None, None])
        for f in (
            lambda i: torch.nn.functional.interpolate(i, size=(3, 4)),
            lambda i: torch.nn.functional.adaptive_avg_pool2d(i, (3, 4)),
            lambda i: torch.nn.functional.avg_pool2d(i, 1),
            lambda i: torch.nn.functional.max_pool2d(i, 1),
            lambda i: torch.nn.functional.pixel_shuffle(i, 1),
            lambda i: torch.nn.functional.unfold(i, 1),
        )
    ],
    "copies of views": lambda x, y: (torch.view_copy(y, (3, 4)), torch.permute_copy(y, (0, 1)), torch.squeeze_copy(y)),
    "scattered": lambda x, y: (
        torch.select_scatter(y[None], x, 0, 0),
        torch.diagonal_scatter(y[:1, :1], x[0, :1]),
        torch.as_strided_scatter(x, y, (3, 4), (4, 1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IDLE)
def test_where_there_is_nothing_to_be_done(name):
    def function(x, y):
        return pytree.tree_leaves(IDLE[name](x, y))

    inputs = X.clone(), X * 2
    compiled = inductor.compile(traced(function, *inputs), [*inputs])
    expected, found = function(*inputs), compiled(*inputs)
    torch.testing.assert_close([*found], expected, rtol=0, atol=0)
    assert shared(inputs, found) == shared(inputs, expected)
