"""Operators whose result's size depends on data stay in the graph, as long as nothing in Python depends on the size."""

import sys
import warnings

import pytest
import torch

import capture


def by_a_mask(a):
    b = a.clone()
    b[a > 2] = 7
    b[a < 1] *= 2
    return b


WHOLE = {
    "nonzero": lambda a: a.nonzero() + 1,
    "a mask": lambda a: a[a > 2] * 2 + 1,
    "a mean over a mask": lambda a: a[a > 2].sum() / a[a > 2].numel(),
    "unique": lambda a: torch.unique(a.long()) + 1,
    "where": lambda a: [t * 2 for t in torch.where(a > 2)],
    "sizes that are returned": lambda a: (a[a > 2].shape[0], len(a[a > 2]), a[a > 2].numel() * 2),
    "assignment by a mask": by_a_mask,
    "two of them": lambda a: torch.cat([a[a > 2], a[a < 2]]),
    "positions as index": lambda a: a[:, (a[0] > 0).nonzero()[:, 0]],
    "a slice": lambda a: a.flatten()[: a[a > 2].shape[0]],
    "a new tensor of that size": lambda a: torch.zeros(a[a > 1].shape[0], 2) + 1,
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_graph_stays_whole(check, x, name):
    check(WHOLE[name], x)


def test_one_graph_serves_every_size(same, x):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(WHOLE["a mask"])
    for limit in range(8):
        same(WHOLE["a mask"](x - limit), region(x - limit))
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 1


def test_gradients_through_a_mask(check, x):
    check(lambda a: torch.autograd.grad((a[a > 2] ** 2).sum(), a), x.requires_grad_())


BROKEN = {
    "a branch": (2, 1, lambda a: a + 1 if a[a > 2].numel() > 0 else a - 1),
    "a loop": (2, 2 - (sys.version_info >= (3, 12)), lambda a: [row * 2 for row in a[a > 2]]),  # inlined from 3.12 on
    "a size that has to fit": (1, 1, lambda a: a[a > 2] + torch.ones(3)),
}
"""The numbers of graphs and breaks, and the function."""


@pytest.mark.parametrize("name", BROKEN)
def test_where_python_depends_on_the_size_the_graph_breaks(check, x, name):
    graphs, breaks, function = BROKEN[name]
    check(function, x, graphs=graphs, breaks=breaks)


def test_a_size_that_does_not_fit_is_an_error_as_in_eager(check, x):
    check(BROKEN["a size that has to fit"][-1], x * 0, breaks=1)


def test_the_setting_turns_it_off(same, x):
    log = capture.Log()
    options = capture.Options(capture_dynamic_output_shapes=False)
    same(WHOLE["a mask"](x), capture.optimize("eager", options=options, log=log)(WHOLE["a mask"])(x))
    assert any(isinstance(record, capture.BreakRecord) for record in log.records())


DTYPES = [torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64]


@pytest.mark.parametrize("of", DTYPES)
@pytest.mark.parametrize("to", DTYPES)
def test_what_is_assigned_to_a_position_is_converted(to, of):
    def assigned(made, position, row):
        made[position] = row
        return made

    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(assigned)
    given = torch.tensor(1), torch.tensor([[0, 1, 2]]).to(of)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Casting complex")
        expected, actual = (function(torch.ones(2, 3, dtype=to), *given) for function in (assigned, region))
    assert torch.equal(actual, expected)
    assert any(isinstance(record, capture.GraphRecord) for record in log.records())


COUNTED = {
    "a number": lambda made, count, row: made.__setitem__(count, row),
    "a view of it": lambda made, count, row: made.__setitem__(count.view(()), row),
    "a list": lambda made, count, row: made.__setitem__([count.item()], row),
    "within an index": lambda made, count, row: made.__setitem__((count, slice(None)), row),
}


@pytest.mark.parametrize("counted", COUNTED)
def test_a_position_may_be_counted_on_before_backward(counted):
    def program(row, count):
        made = torch.zeros(3, 2)
        COUNTED[counted](made, count, row)
        count.add_(1)
        COUNTED[counted](made, count, row * 2)
        count.add_(1)
        return made

    found = []
    for function in (program, capture.optimize("eager")(program)):
        row, count = torch.ones(2, requires_grad=True), torch.tensor(0)
        function(row, count)[:2].sum().backward()
        found.append(row.grad.tolist())
    assert found == [[3, 3], [3, 3]]
