"""Warnings: those of eager, as often and in its words; what runs on fakes adds none and uses none up."""

import contextlib
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F

import capture

OPERATIONS = {
    "out": lambda x: torch.floor(x.detach(), out=torch.ones(3)),
    "sizes of a loss": lambda x: F.mse_loss(x[None, None], torch.ones(x.shape[0])),
    "no dimension": lambda x: F.softmax(x),
    "too few": lambda x: x[:1].std(),
    "copies": lambda x: torch.tensor(x) + 1,
    "gradient of an argument": lambda x: x.grad is None,
    "gradient of a result": lambda x: (x * 2).grad is None,
    "arithmetic": lambda x: x.add_(1),
}


def said(function, x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        function(x)
    return [str(one.message) for one in told]


@pytest.mark.without_graphs(
    "torch warns of a gradient that no leaf has: CPython reads it", cases=["gradient of an argument"]
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_warnings_are_those_of_eager(name):
    compiled = capture.optimize("eager")(OPERATIONS[name])
    for size in (2, 4, 5, 5):  # a size that varies is a symbol, which no warning may name
        x = torch.ones(size, requires_grad=True) * 2
        assert said(compiled, x) == said(OPERATIONS[name], x.detach().requires_grad_() * 1)


ONCE = """
import torch, warnings, capture

def program(x):
    return x.T + 1

def program_of_user():
    warnings.warn("mine")

compiled = capture.optimize("eager")(lambda x: x.T + 1)  # modules that are imported for it may change filters
compiled(torch.ones(2, 2)), compiled(torch.ones(3, 3))
filters = warnings.filters
program_of_user()
compiled = capture.optimize("eager")(program)
compiled(torch.ones(2, 2, 2)), compiled(torch.ones(3, 2, 2))
program_of_user()
assert warnings.filters is filters
"""


def test_what_is_said_once_is_said_once():
    ended = subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("UserWarning: mine") == 1
    assert ended.stderr.count("The use of `x.T`") == 1


def reads_a_gradient(x):
    return x * 2 if x.grad is None else x * x.grad


def goes_backward(x):
    y = x.narrow(0, 0, 1)
    x.sum().backward()
    return y


@pytest.mark.parametrize("function", [reads_a_gradient, goes_backward])
def test_the_gradient_of_no_leaf_is_told_as_often(function):
    """Whichever versions look at the argument first, and whatever they learn from it."""

    def each_call(function):
        leaf, other = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
        retaining = other * 1
        retaining.retain_grad()
        for x in (leaf, other, leaf * 1, retaining, torch.ones(0, 3) + leaf.sum(), leaf, leaf * 1):
            with warnings.catch_warnings(record=True) as told, contextlib.suppress(RuntimeError):
                warnings.simplefilter("always")
                function(x)
            yield [str(one.message) for one in told]

    assert list(each_call(capture.optimize("eager")(function))) == list(each_call(function))


def looks_while_it_records(x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        y = F.mse_loss(x[None], x)
        first = len(told)
        x.std()
        return y, first, [str(one.message) for one in told]


def test_what_warnings_are_recorded_in_is_read_after_the_graph():
    compiled = capture.optimize("eager")(looks_while_it_records)
    for size in (1, 2, 1):
        assert compiled(torch.ones(size))[1:] == looks_while_it_records(torch.ones(size))[1:]


@pytest.mark.without_graphs("the operator is refused, and CPython raises its error")
def test_an_error_within_a_transform_is_raised_and_not_printed_besides(capfd):
    def function(x):
        return torch.func.vmap(lambda row: row + torch.rand(3))(x)

    for run in (function, capture.optimize("eager")(function)):
        with pytest.raises(RuntimeError, match="random operation"):
            run(torch.ones(2, 3))
        assert not capfd.readouterr().err
