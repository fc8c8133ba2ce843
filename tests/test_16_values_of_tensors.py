"""Data-dependent numbers and sizes through all packages: right for every input, and one graph."""

import pytest
import torch
from torch import nn

import compile_api

PROGRAMS = {
    "a mean over a mask": lambda a: (a[a > 2].sum() / a[a > 2].numel(),),
    "positions": lambda a: (a.nonzero() * 2, a[a > 2] + 1),
    "unique": lambda a: (torch.unique(a.long()) + 1,),
    "two masks": lambda a: (torch.cat([a[a > 2], a[a < 2]]), len(a[a > 2])),
    "a new tensor of that size": lambda a: (torch.zeros(a[a > 1].shape[0], 2) + 1,),
    "a scale": lambda a: (a / (a.abs().max().item() + 1), a.sum().item()),
    "a count": lambda a: (a * (a > 2).sum().item(), (a > 2).sum().item() + 1),
    "a gradient": lambda a: torch.autograd.grad((a[a > 2] ** 2).sum(), a),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_of_tensors(name):
    program = PROGRAMS[name]
    compiled = compile_api.compile(program, fullgraph=True)
    for shift in (0.0, 1.5, 4.0, 100.0):
        given = (torch.arange(12.0).reshape(3, 4) - shift).requires_grad_(name == "a gradient")
        torch.testing.assert_close(compiled(given), program(given), equal_nan=True)


def count(x):
    return (x > 0).sum().item()


OF_NUMBERS = {
    "new tensors": lambda x: torch.zeros(count(x) + 1, 3) + torch.arange(3) + x.sum(),
    "prefixes": lambda x: (x[: count(x)].softmax(0), x[count(x) :] * 2, x[: -count(x)].sum()),
    "one length, many slices": lambda x: (lambda n: (x[:n] * 2, x[:n] + 1, x[:n].shape[0]))(count(x)),
    "rows": lambda x: x.view(2, 3)[count(x) % 2] * 2 + count(x),
    "a mask of lengths": lambda x: (torch.arange(count(x) + 2)[None] < torch.arange(6)[:, None]).float().mean(1),
    "values": lambda x: (x * (count(x) + 1), x.clamp(max=count(x) - 3), x.long() // (count(x) + 1)),
    "negative values": lambda x: (x[count(x) - 9 :] * 2, x + (count(x) - 9), torch.full((2,), -count(x))),
    "a square": lambda x: (lambda n: torch.ones(n, n).tril() @ torch.ones(n, 2))(count(x)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_results_are_eagers_for_every_number(name):
    compiled = compile_api.compile(OF_NUMBERS[name])
    for seed in range(12):
        x = torch.randn(6, generator=torch.Generator().manual_seed(seed))
        if count(x) > 0:
            torch.testing.assert_close(compiled(x), OF_NUMBERS[name](x))
    report = compile_api.report(compiled)
    assert len(report.captured) == 1
    assert not any((report.breaks, report.refused, report.left_alone))


def number(k):
    return k.sum().item()


AT_NUMBERS = {
    "a row": lambda w, n: w[n],
    "an element of a row": lambda w, n: w[n][n - 1],
    "from there on": lambda w, n: w[n:],
    "up to there": lambda w, n: w[:n].square(),
    "both ends": lambda w, n: w[n - 1 : n + 2],
    "a row put in": lambda w, n: w.select_scatter(torch.ones(3), 0, n),
    "rows put in": lambda w, n: w.slice_scatter(torch.ones(2, 3), 0, n, n + 2),
    "rolled": lambda w, n: w.roll(n, 0) * torch.arange(6.0)[:, None],
    "the largest": lambda w, n: w[:n].max(0).values,
    "the largest of all": lambda w, n: w[:n].max(),
    "padded": lambda w, n: nn.functional.pad(w, (0, n)),
    "repeated": lambda w, n: w.repeat(n, 1),
    "filled": lambda w, n: w.masked_fill(w > 0, n),
    "a triangle": lambda w, n: w.tril(n),
    "a power": lambda w, n: w.abs() ** n,
    "resized": lambda w, n: nn.functional.interpolate(w[None, None], size=(n, 3)),
    "a deviation": lambda w, n: w[:n].std(0),
    "a window on memory": lambda w, n: torch.as_strided(w.detach() * 2, (n,), (1,)) + w[0, 0],
    "a stride": lambda w, n: torch.as_strided(w.detach() * 2, (2,), (n,)) + w[0, 0],
}


BREAKS_AT_DATA = {"padded"}
BREAKS_AT_INTEGERS = {"the largest of all", "repeated", "resized", "a window on memory"}
"""Programs that CPython has to refuse at some of these numbers; the others are whole for all of them."""
if torch.__version__ < "2.13":
    BREAKS_AT_DATA.add("a power")  # the fake of 2.11 asks for the number
else:
    BREAKS_AT_INTEGERS.add("an element of a row")


def outcome(function, w, k):
    """The result and its gradient, or the kind of the error."""
    try:
        result = function(w, k)
        return [result, *torch.autograd.grad(result.sin().sum(), w)]
    except (IndexError, RuntimeError, ZeroDivisionError) as error:
        return type(error)


def compare(compiled, program, *given):
    ours, eagers = (outcome(function, *given) for function in (compiled, program))
    if isinstance(eagers, list) and isinstance(ours, list):
        torch.testing.assert_close(ours, eagers, equal_nan=True)
    else:
        assert ours == eagers


@pytest.mark.filterwarnings("ignore:.* runs operator by operator", "ignore:.*degrees of freedom")
@pytest.mark.parametrize("name", AT_NUMBERS)
def test_positions_and_sizes_may_be_negative_or_too_large(name):
    def program(w, k):
        return AT_NUMBERS[name](w * 2, number(k))

    compiled = compile_api.compile(program)
    w = torch.linspace(-1, 1, 18, dtype=torch.float64).reshape(6, 3).requires_grad_()
    for value in (3, 2, 0, 5, -1, -2, -6, -7, 6, 7, 30):
        compare(compiled, program, w, torch.tensor([value]))
    report = compile_api.report(compiled)
    assert report.captured
    assert bool(report.breaks) == (name in BREAKS_AT_DATA)


@pytest.mark.filterwarnings("ignore:.* runs operator by operator", "ignore:.*degrees of freedom")
@pytest.mark.parametrize("name", AT_NUMBERS)
@pytest.mark.parametrize("dynamic", [True, None])
def test_integers_that_are_given_may_be_negative_or_too_large(name, dynamic):
    program = lambda w, n: AT_NUMBERS[name](w * 2, n)
    compiled = compile_api.compile(program, dynamic=dynamic)
    w = torch.linspace(-1, 1, 18, dtype=torch.float64).reshape(6, 3).requires_grad_()
    for n in (3, 4, -1, -2, 0, 30):
        compare(compiled, program, w, n)
    report = compile_api.report(compiled)
    assert len(report.captured) >= 2
    assert bool(report.breaks) == (name in BREAKS_AT_INTEGERS)


def test_gradients_go_through_parts_whose_size_only_data_can_tell():
    layer = nn.Linear(4, 4)

    def loss(x, keep):
        return layer(x)[: keep.sum().item()].square().sum() + layer(x)[keep.long().argmax().item()].sum()

    x = torch.randn(6, 4)
    for kept in (3, 5, 1, 6):
        keep = torch.arange(6) < kept
        expected = torch.autograd.grad(loss(x, keep), layer.weight)
        torch.testing.assert_close(
            torch.autograd.grad(compile_api.compile(loss, fullgraph=True)(x, keep), layer.weight), expected
        )


@pytest.mark.parametrize("position", [9, -9])
def test_a_position_outside_is_the_users_error(position):
    def pick(x):
        return x[int((x > -1e9).sum()) - 6 + position] * 2

    with pytest.raises(IndexError, match=f"index {position} is out of bounds"):
        compile_api.compile(pick, fullgraph=True)(torch.randn(6))


def test_a_negative_size_is_the_users_error():
    def make(x):
        return torch.zeros(count(x) - 100).sum() + 1

    with pytest.raises(RuntimeError, match="non-negative"):
        compile_api.compile(make, fullgraph=True)(torch.randn(6))
